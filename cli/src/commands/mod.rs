//! What each command does: one file per group, thin over `client`, `documents` and `render`.

mod alloc;
mod allocation;
mod apply;
mod array;
mod audit;
mod auth;
mod board;
mod cancel;
mod changes;
mod configuration;
mod copy;
mod delete;
mod describe;
mod diff;
mod doctor;
mod drain;
mod dry_run;
pub mod due;
mod edit;
mod events;
mod explain;
mod fabric;
mod filter;
mod get;
mod history;
mod kubernetes;
mod label;
mod license;
mod list;
mod live;
mod login;
mod logs;
mod lookup;
mod made;
mod node;
mod plan;
mod port_forward;
pub mod progress;
mod qos;
mod queue;
mod rail;
mod reserve;
mod revoke;
mod run;
mod schedule;
mod screen;
mod secret;
mod service_class;
mod shell;
mod sign_on;
mod signal;
mod simulate;
mod slurm;
mod source;
mod step;
mod submit;
mod switch;
mod switch_diff;
mod switch_rollout;
mod switch_site;
mod switches;
mod tenant;
mod timeline;
mod top;
mod topology;
mod undelete;
mod upgrade;
mod usage;
pub mod wait;
mod wait_for;
mod watch;
mod webhook;

use std::{cell::RefCell, time::Duration};

use clap::CommandFactory as _;
use proto_wire::v1;

use crate::{
    args::{Cli, Command, Output, SlurmPlace},
    client::{Api, repeat},
    commands::lookup::identity,
    config::{ConfigFile, Environment, resolve},
    dev,
    error::Error,
    output::{now, print},
    render,
};

/// Runs the command on a runtime of its own.
///
/// # Errors
/// That of the command; its exit code is [`Error::exit_code`].
pub fn run(cli: &Cli) -> Result<(), Error> {
    match &cli.command {
        Command::Completion { shell } => return shell::completion(*shell),
        Command::Man { dir } => return shell::man(dir),
        Command::Fabric(command) => return fabric::run(command),
        Command::Switch(command) => {
            if let Some(done) = switch::offline(command) {
                return done;
            }
        }
        Command::Simulate(args) => return simulate::simulate(args),
        Command::Replay(args) => return simulate::replay(args),
        Command::Qos(command) => {
            if let Some(done) = qos::offline(command) {
                return done;
            }
        }
        Command::Config(command) => {
            return configuration::run(command, &cli.global, &Environment::of_process());
        }
        _ => {}
    }
    block_on(dispatch(cli))
}

/// `slurm place`, read alone ([`SlurmPlace::read_alone`]).
///
/// # Errors
/// As [`run`].
pub fn place(args: &SlurmPlace) -> Result<(), Error> {
    block_on(slurm::place(args))
}

fn block_on(command: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Config(format!("cannot start: {error}")))?;
    let done = runtime.block_on(command);
    // A blocked read of standard input must not hold the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

fn connect(cli: &Cli, env: &Environment) -> Result<Api, Error> {
    let file = ConfigFile::load(env.config_path().as_deref())?;
    Api::new(&resolve(&cli.global, env, &file)?)
}

async fn dispatch(cli: &Cli) -> Result<(), Error> {
    let (env, command) = (Environment::of_process(), &cli.command);
    // Only who needs the controller hears that there is no new token for it.
    let ended = RefCell::new(sign_on::renew(cli, &env).await.err());
    let api = || ended.take().map_or_else(|| connect(cli, &env), Err);
    match command {
        Command::Submit(args) => submit::run(args, api).await,
        Command::Alloc(args) => alloc::run(args, &cli.global, api).await,
        Command::Run(args) => run::run(args, api).await,
        Command::Exec(args) => run::exec(args, &api()?).await,
        Command::Copy(args) => copy::run(args, &api()?).await,
        Command::PortForward(args) => port_forward::run(args, &api()?).await,
        Command::Signal(args) => signal::run(args, &api()?).await,
        Command::Timeline(args) => timeline::run(args, &api()?).await,
        Command::Top(args) => top::run(args, &api()?).await,
        Command::Usage(args) => usage::run(args, &api()?).await,
        Command::Efficiency(args) => top::efficiency(args, &api()?).await,
        Command::Label(args) => label::run(args, &api()?).await,
        Command::Token(command) => auth::tokens(command, &api()?).await,
        Command::Auth(command) => auth::run(command, &api()?).await,
        Command::Plan(args) => plan::run(args, api).await,
        Command::Apply(args) => apply::run(args, api).await,
        Command::Get(args) => get::run(args, &api()?).await,
        Command::Describe(args) => describe::run(args, &api()?).await,
        Command::Logs(args) => logs::run(args, &api()?).await,
        Command::Events(args) => events::run(args, &api()?).await,
        Command::Attach(args) => logs::attach(args, &api()?).await,
        Command::Schedule(command) => schedule::run(command, &api()?).await,
        Command::Wait(args) => wait_for::run(args, &api()?).await,
        Command::Login(args) => login::run(args, &cli.global, &env).await,
        Command::Cancel(args) => cancel::run(args, &api()?).await,
        Command::Hold(args) => changes::hold(args, &api()?).await,
        Command::Release(args) => changes::release(args, &api()?).await,
        Command::Suspend(args) => changes::suspend(args, &api()?).await,
        Command::Resume(args) => changes::resume(args, &api()?).await,
        Command::Requeue(args) => changes::requeue(args, &api()?).await,
        Command::Update(args) => changes::update(args, &api()?).await,
        Command::Explain(args) => explain::run(args, &api()?).await,
        Command::Create(command) => secret::create(command, api).await,
        Command::Diff(args) => diff::run(args, api).await,
        Command::Edit(args) => edit::run(args, &api()?).await,
        Command::Delete(args) => delete::run(args, &api()?).await,
        Command::Undelete(args) => undelete::run(args, &api()?).await,
        Command::Tenant(command) => tenant::run(command, &api()?, &cli.global, &env).await,
        Command::Node(command) => node::run(command, &api()?).await,
        Command::Queue(command) => queue::run(command, &api()?).await,
        Command::Webhook(command) => webhook::run(command, &api()?).await,
        Command::Reserve(command) => reserve::run(command, &api()?).await,
        Command::Revoke(command) => revoke::run(command, &api()?).await,
        Command::Rail(command) => rail::run(command, &api()?).await,
        Command::Qos(command) => qos::run(command, &api()?).await,
        Command::Slurm(command) => slurm::run(command, api).await,
        Command::Kubernetes(command) => kubernetes::run(command, api).await,
        Command::Switch(command) => switches::run(command, &api()?).await,
        Command::Audit(command) => audit::run(command, &cli.global, &env, api).await,
        Command::Topology(command) => topology::run(command, api).await,
        Command::History(command) => history::run(command, &api()?).await,
        Command::Health { output } => health(*output, &api()?).await,
        Command::Doctor { names, output } => doctor::run(names, *output, &api()?).await,
        Command::Upgrade(command) => upgrade::run(command, &cli.global, &env, api).await,
        Command::Validate(args) => crate::validate::run(args, &api()?).await,
        Command::Whoami { save_ca, output } => {
            let save = save_ca.then(|| audit::ca_file(&cli.global, &env)).transpose()?;
            whoami(*output, save.as_deref(), &api()?).await
        }
        Command::Version { client } => version(*client, api).await,
        Command::Dev(command) => print(&dev::run(command, &env, now()).await?),
        // Done before there was a runtime.
        Command::Completion { .. } | Command::Man { .. } | Command::Config(_) => Ok(()),
        Command::Fabric(_) | Command::Simulate(_) | Command::Replay(_) => Ok(()),
    }
}

async fn health(output: Output, api: &Api) -> Result<(), Error> {
    let seen = repeat("ask for the health", |_| {
        let mut client = api.health();
        async move { client.get_health(v1::GetHealthRequest {}).await }
    })
    .await?;
    print(&render::render(output, &seen, "rail.v1.ClusterHealth", Vec::new, |_| render::health(&seen))?)
}

async fn whoami(output: Output, save_ca: Option<&std::path::Path>, api: &Api) -> Result<(), Error> {
    let me = identity(api).await?;
    if let Some(path) = save_ca.filter(|_| !me.ca_pem.is_empty()) {
        // The controller that says so was verified with what is in the file now.
        let failed = |error: proto_rpc::files::FileError| Error::Config(error.to_string());
        proto_rpc::files::write_public(path, &me.ca_pem).map_err(failed)?;
        eprintln!("{} holds what the cluster trusts", path.display());
    }
    let names = || vec![me.identity.clone()];
    let table = |_| {
        let mut table = render::Table::bare();
        let facts = [
            ("Identity:", me.identity.clone()),
            ("Role:", render::role(me.role).to_owned()),
            ("Tenant:", me.tenant.clone()),
            ("User:", me.user.clone()),
        ];
        for (name, fact) in facts {
            table.row([name.to_owned(), fact]);
        }
        table.render("")
    };
    print(&render::render(output, &me, "rail.v1.WhoAmIResponse", names, table)?)
}

async fn version(client_only: bool, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let ours = Cli::command().get_version().unwrap_or_default().to_owned();
    print(&format!("railctl     {ours}\n"))?;
    if client_only {
        return Ok(());
    }
    let Ok(api) = api() else { return Ok(()) };
    let mut client = api.within(Duration::from_secs(3)).health();
    match client.get_health(v1::GetHealthRequest {}).await {
        Ok(answer) => print(&format!("controller  {}\n", answer.into_inner().version)),
        Err(status) => {
            eprintln!("the controller does not answer: {}", status.message());
            Ok(())
        }
    }
}
