//! Whom people of tenant beta try to have the controller call, and what they try on webhooks of tenant alpha.

use serde_json::{Value, json};

use crate::{
    caller::From,
    model::{Attempt, Expect, Finding, Step, Trace},
};

const PEOPLE: [From; 3] = [From::Viewer, From::User, From::TenantAdmin];
const MANAGER: [From; 1] = [From::TenantAdmin];

fn attempts(
    (id, title): (&str, &str),
    by: &[From],
    (method, body): (&str, Value),
    (expect, trace): (Expect, Trace),
) -> Vec<Attempt> {
    let attempt = |from: &From| Attempt {
        id: format!("webhooks/{id}/{}", from.name()),
        title: title.to_owned(),
        finding: Finding::Held,
        from: *from,
        step: Step::Call { rpc: rpc(method), body: body.clone() },
        expect,
        trace,
    };
    by.iter().map(attempt).collect()
}

fn rpc(method: &str) -> &'static str {
    match method {
        "Apply" => "rail.v1.WebhookService/ApplyWebhook",
        "Get" => "rail.v1.WebhookService/GetWebhook",
        "List" => "rail.v1.WebhookService/ListWebhooks",
        "Delete" => "rail.v1.WebhookService/DeleteWebhook",
        _ => "rail.v1.WebhookService/TestWebhook",
    }
}

/// A webhook to this URL.
fn to(url: &str) -> Value {
    json!({"webhook": {
        "metadata": {"name": "inner"},
        "spec": {"url": url, "events": ["ENDED"], "allowInsecure": true},
    }})
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let foreign = (Expect::Reason(&["FOREIGN_TENANT"]), Trace::Audited);
    let theirs = || json!({"name": "alpha-keep-77", "tenant": "alpha"});
    let mut apply = to("https://a.example/");
    apply["webhook"]["metadata"]["tenant"] = "alpha".into();
    let mut all = [
        attempts(("get", "read a webhook of the other tenant"), &PEOPLE, ("Get", theirs()), foreign),
        attempts(
            ("list", "list the other tenant's webhooks"),
            &PEOPLE,
            ("List", json!({"tenant": "alpha"})),
            foreign,
        ),
        attempts(
            ("all", "list webhooks without naming a tenant"),
            &PEOPLE,
            ("List", json!({})),
            (Expect::Hidden, Trace::None),
        ),
        attempts(
            ("apply", "be told what becomes of the other tenant's jobs"),
            &MANAGER,
            ("Apply", apply),
            foreign,
        ),
        attempts(("delete", "delete a webhook of the other tenant"), &MANAGER, ("Delete", theirs()), foreign),
        attempts(
            ("test", "have a webhook of the other tenant send something"),
            &MANAGER,
            ("Test", theirs()),
            foreign,
        ),
    ]
    .concat();
    for (id, title, url) in [
        ("metadata", "the metadata service of a cloud", "http://169.254.169.254/latest/meta-data/"),
        ("mapped", "the metadata service by an IPv4-mapped address", "http://[::ffff:169.254.169.254]/"),
        ("mapped-hex", "the metadata service by an IPv4-mapped address in hex", "http://[::ffff:a9fe:a9fe]/"),
        ("nat64", "the metadata service by an address of NAT64", "http://[64:ff9b::a9fe:a9fe]/"),
        ("6to4", "the metadata service by an address of 6to4", "http://[2002:a9fe:a9fe::1]/"),
        ("metadata-v6", "the metadata service of a cloud over IPv6", "http://[fd00:ec2::254]/"),
        ("loopback", "the controller's own metrics", "http://127.0.0.1:9100/"),
        ("loopback-v6", "loopback over IPv6", "https://[::1]/"),
        ("unspecified", "loopback by the unspecified address", "http://0.0.0.0:9100/"),
        ("private", "a server of the site", "https://10.0.0.1/"),
        ("link-local-v6", "a neighbour of the controller", "http://[fe80::1]/"),
        ("credentials", "a receiver with a user and a password in its URL", "https://root:secret@a.example/"),
        ("confused", "a host that two readers take for another", "https://a.example\\@169.254.169.254/"),
        ("header", "a URL that brings a header along", "https://a.example/\r\nx-role: admin"),
        ("file", "a file of the controller", "file:///var/lib/rail/ca.key"),
        ("long", "a URL without end", &format!("https://a.example/{}", "x".repeat(4096))),
    ] {
        let title = format!("have the controller call {title}");
        let refused = (Expect::Refused, Trace::None);
        all.extend(attempts((&format!("to-{id}"), &title), &MANAGER, ("Apply", to(url)), refused));
    }
    all
}
