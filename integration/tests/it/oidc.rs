//! Single sign-on at a real provider: oidc-provider of npm, which is certified, on a loopback port with TLS. The web pages' sign-on by a program that
//! does what a browser does, railctl's by a device code, a key that changes, and a provider that is away.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, SystemTime},
};

use integration_harness::{Cluster, Shape, binaries::root};
use proto_rpc::Ca;
use serde_json::Value;

/// What `cargo xtask test` lends, with a Node that runs it; says what is skipped otherwise.
fn lent() -> Option<PathBuf> {
    let folder = std::env::var_os("RAIL_TEST_OIDC").map(PathBuf::from);
    let node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    if folder.is_none() || !node {
        println!("skipped: there is no npm with an OpenID provider (RAIL_TEST_OIDC, node)");
        return None;
    }
    folder
}

/// Where the pages' sign-on returns to: a name that only the test's browser knows.
const NAME: &str = "rail.example";

/// A provider that runs as a process, and ends with this.
struct Idp {
    process: Child,
    words: ChildStdin,
    lines: BufReader<ChildStdout>,
    issuer: String,
    /// The authority that it is trusted by.
    ca: PathBuf,
    tools: PathBuf,
}

impl Drop for Idp {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Idp {
    fn start(tools: &Path, dir: &Path) -> Self {
        for program in ["provider.mjs", "browser.mjs"] {
            // What is run has to lie beside its packages.
            fs::copy(root().join("integration/oidc").join(program), tools.join(program)).unwrap();
        }
        let day = Duration::from_secs(86_400);
        let ca = Ca::create("idp", SystemTime::now(), day).unwrap();
        let leaf = ca.issue_server(&["127.0.0.1".into()], day / 2, SystemTime::now()).unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (cert, key) = (file("idp.pem", &leaf.issued.chain_pem), file("idp.key", &leaf.key_pem));
        let ca = file("idp-ca.pem", ca.certificate_pem());
        let mut process = Command::new("node")
            .arg(tools.join("provider.mjs"))
            .envs([("OIDC_CERT", &cert), ("OIDC_KEY", &key)])
            .env("OIDC_REDIRECT", format!("https://{NAME}/ui/login/callback"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let words = process.stdin.take().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut issuer = String::new();
        lines.read_line(&mut issuer).unwrap();
        let issuer = issuer.trim().to_owned();
        assert!(issuer.starts_with("https://127.0.0.1:"), "{issuer}");
        Self { process, words, lines, issuer, ca, tools: tools.to_owned() }
    }

    /// Has it do something, and waits until that is done.
    fn order(&mut self, word: &str) {
        writeln!(self.words, "{word}").unwrap();
        let mut done = String::new();
        self.lines.read_line(&mut done).unwrap();
        assert_eq!(done.trim(), word);
    }

    /// What a controller is started with.
    fn variables(&self, secret: &Path) -> Vec<(String, String)> {
        let path = |path: &Path| path.display().to_string();
        [
            ("ISSUER", self.issuer.clone()),
            ("CLIENT_ID", "rail".to_owned()),
            ("AUDIENCE", "rail,railctl".to_owned()),
            ("CA", path(&self.ca)),
            ("NAME_CLAIM", "preferred_username".to_owned()),
            ("GRANT", "admins=admin;nlp=user@dev".to_owned()),
            ("UI_URL", format!("https://{NAME}")),
            ("CLIENT_SECRET_FILE", path(secret)),
            ("SCOPES", "openid profile groups".to_owned()),
        ]
        .map(|(name, value)| (format!("RAIL_CONTROLLER_OIDC_{name}"), value))
        .to_vec()
    }

    /// Goes where a browser would go.
    fn browse(&self, cluster: &Cluster, url: &str, name: &str) -> Value {
        let data = cluster.dir().join("controller");
        let both = [&self.ca, &data.join("ca.pem")].map(|path| fs::read_to_string(path).unwrap()).concat();
        let bundle = cluster.home().join("both.pem");
        fs::write(&bundle, both).unwrap();
        let output = Command::new("node")
            .arg(self.tools.join("browser.mjs"))
            .args([url, name])
            .env("OIDC_CA", &bundle)
            .envs([("OIDC_NAME", NAME), ("OIDC_HOST", &address(cluster))])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{url} as {name}\n{out}\n{err}\n{}", cluster.logs());
        serde_json::from_str(&out).unwrap()
    }
}

/// HOST:PORT of the controller.
fn address(cluster: &Cluster) -> String {
    let ready = fs::read_to_string(cluster.dir().join("controller/controller.json")).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let endpoints = ready["endpoints"].as_array().unwrap();
    let tcp = endpoints.iter().filter_map(Value::as_str).find_map(|one| one.strip_prefix("https://"));
    tcp.unwrap().to_owned()
}

/// Signs on in the pages, which come to nothing but a token of the cluster.
fn pages(idp: &Idp, cluster: &Cluster) {
    let start = format!("https://{NAME}/ui/login/start?to=%2Fui%2Fjobs%3Fphase%3DRUNNING");
    let done = idp.browse(cluster, &start, "ann");
    assert_eq!(done["url"], format!("https://{NAME}/ui/jobs?phase=RUNNING"), "{done}");
    assert_eq!(done["status"], 200);
    let way = done["way"].to_string();
    assert!(!way.contains("eyJ") && !way.contains("rail-user"), "no token is in a URL: {way}");
    let sent = way.find("code_challenge_method=S256").is_some() && way.contains("nonce=");
    assert!(sent && !way.contains("code_verifier"), "{way}");
    assert_eq!(
        (done["fetched"]["status"].as_u64(), done["again"]["status"].as_u64()),
        (Some(200), Some(204))
    );
    // The answer is good once, and in the browser that asked for it.
    for shown in ["foreign", "replayed"] {
        assert_eq!(done[shown]["status"], 401, "{shown}: {done}");
        assert!(done[shown]["text"].as_str().unwrap().contains("no sign-on under way"), "{done}");
    }
    let token: Value = serde_json::from_str(done["fetched"]["text"].as_str().unwrap()).unwrap();
    let who = cluster.json(&["whoami", "--token", token["token"].as_str().unwrap()]).unwrap();
    assert_eq!((&who["tenant"], &who["user"]), (&"dev".into(), &"ann".into()), "{who}");
    // No page of another site is where one ends.
    let elsewhere = format!("https://{NAME}/ui/login/start?to=https%3A%2F%2Fevil.example%2F");
    assert_eq!(idp.browse(cluster, &elsewhere, "ann")["url"], format!("https://{NAME}/ui/"));
    let nobody = idp.browse(cluster, &start, "eve");
    assert_eq!(nobody["status"], 401, "{nobody}");
    assert!(nobody["text"].as_str().unwrap().contains("grants a role"), "{nobody}");
    assert_eq!(nobody["fetched"]["status"], 204, "{nobody}");
    let records = cluster.railctl(&["audit", "ls", "-o", "wide"]);
    let of = |name: &str| format!("{} {name}", idp.issuer);
    let line =
        |words: [&str; 2]| records.stdout.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(line(["SignOn", &of("ann")]), "{}", records.stdout);
}

/// Signs on by a device code; gives what railctl said, and its exit code.
fn device(idp: &Idp, cluster: &Cluster, name: &str) -> (i32, String) {
    let ca = cluster.dir().join("controller/ca.pem");
    let controller = format!("https://{}", address(cluster));
    let mut login = cluster.command(&["login", "sso", "--oidc", "--client-id", "railctl"]);
    login.args(["--controller", &controller, "--issuer", &idp.issuer]).arg("--ca").arg(ca);
    login.arg("--oidc-ca").arg(&idp.ca).args(["--scopes", "openid profile groups offline_access"]);
    let mut child = login.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    lines.read_line(&mut said).unwrap();
    if let Some(url) = said.trim().strip_prefix("open ") {
        idp.browse(cluster, url, name);
    }
    lines.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code().unwrap_or(255), said)
}

fn sso(cluster: &Cluster, more: &[&str]) -> integration_harness::Answer {
    cluster.railctl(&[&["--context", "sso"], more].concat())
}

fn kept(cluster: &Cluster) -> String {
    let file = fs::read_to_string(cluster.home().join("config.yaml")).unwrap();
    let line = file.lines().find(|line| line.trim().starts_with("token:"));
    line.unwrap_or_else(|| panic!("{file}")).to_owned()
}

/// Signs on from a terminal, and goes on with new tokens.
fn terminal(idp: &mut Idp, cluster: &Cluster) {
    let (code, said) = device(idp, cluster, "ann");
    assert!(code == 0 && said.contains("context `sso` is current"), "{code} {said}");
    let who = sso(cluster, &["whoami"]);
    assert!(who.code == 0 && who.stdout.contains("user/ann"), "{who:?}");
    assert!(!sso(cluster, &["config", "view"]).stdout.contains("eyJ"), "what is kept is not shown");
    let (code, said) = device(idp, cluster, "eve");
    assert!(code == 4 && said.contains("grants a role"), "{code} {said}");
    assert!(sso(cluster, &["whoami"]).stdout.contains("user/ann"), "nothing is kept of whoever may not");
    // A token that is about to end is exchanged for another one before it is used.
    idp.order("short");
    let (code, said) = device(idp, cluster, "ann");
    assert_eq!(code, 0, "{said}");
    let first = kept(cluster);
    let who = sso(cluster, &["whoami"]);
    assert!(who.code == 0 && who.stdout.contains("user/ann"), "{who:?}");
    assert_ne!(kept(cluster), first, "there is a new one");
}

#[test]
fn people_sign_on_at_a_real_provider() {
    let Some(tools) = lent() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut idp = Idp::start(&tools, dir.path());
    let secret = dir.path().join("secret");
    fs::write(&secret, "what the pages show\n").unwrap();
    let env = idp.variables(&secret);
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, env, ..Shape::default() }).unwrap();
    pages(&idp, &cluster);
    // A new key is taken as soon as somebody shows it.
    idp.order("rotate");
    pages(&idp, &cluster);
    terminal(&mut idp, &cluster);
    // Away: whoever has other credentials notices nothing, and who signs on hears why not.
    idp.order("away");
    assert_eq!(cluster.railctl(&["whoami", "--context", cluster.name()]).code, 0);
    let (code, said) = device(&idp, &cluster, "ann");
    assert!(code == 4 && said.contains("status 503"), "{code} {said}");
    let ended = sso(&cluster, &["whoami"]);
    assert!(ended.code == 4 && ended.stderr.contains("railctl login sso --oidc"), "{ended:?}");
    idp.order("back");
    assert_eq!(sso(&cluster, &["whoami"]).code, 0);
}
