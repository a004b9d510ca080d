//! The topology: shown, handed on, compared with what is there.

use std::{collections::BTreeMap, io::IsTerminal as _, path::Path};

use controller_fabric::{draw::Picture, export, lldp, lldp::Neighbor, verify};
use proto_model::{Fabric, NodeName};
use proto_rpc::ErrorClass;
use proto_wire::v1;

use super::fabric::{document, placed, read};
use crate::{
    args::{ExportFormat, Output, Show, TopologyCommand, Verify},
    client::{Api, repeat},
    error::Error,
    output::print,
    render::{self, Paint},
};

/// Servers that are shown port by port where nothing else is asked for.
const IN_FULL: usize = 32;

/// `topology show|export|verify`: the fabric as it is, for other schedulers, and against what servers hear.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Rpc`] if the controller refuses or does not answer;
/// [`Error::Differs`] if `verify` finds cables that are not where they belong.
pub async fn run(command: &TopologyCommand, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    match command {
        TopologyCommand::Show(args) => show(args, api).await,
        TopologyCommand::Export { format, file } => {
            let fabric = planned(file.as_deref(), &api).await?;
            let made = match format {
                ExportFormat::SlurmConf => export::slurm_conf(&fabric),
                ExportFormat::SlurmYaml => export::slurm_yaml(&fabric),
                ExportFormat::Kueue => export::kueue(&fabric),
                ExportFormat::Volcano => export::volcano(&fabric),
            };
            for line in &made.lost {
                eprintln!("not said: {line}");
            }
            print(&made.text)
        }
        TopologyCommand::Verify(args) => compare(args, api).await,
    }
}

/// The cluster's fabric as Slurm reads it: topology.yaml, or topology.conf.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, or has no fabric document.
pub async fn for_slurm(is_yaml: bool, api: &Api) -> Result<String, Error> {
    let fabric = domain(clusters(api).await?)?;
    let made = if is_yaml { export::slurm_yaml(&fabric) } else { export::slurm_conf(&fabric) };
    Ok(made.text)
}

/// The document of a file, or the cluster's.
///
/// # Errors
/// [`Error::Document`] if the file holds no fabric that is right; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn planned(file: Option<&Path>, api: &impl Fn() -> Result<Api, Error>) -> Result<Fabric, Error> {
    match file {
        Some(file) => document(file),
        None => domain(clusters(&api()?).await?),
    }
}

async fn clusters(api: &Api) -> Result<v1::Fabric, Error> {
    repeat("get the fabric", |_| {
        let mut client = api.fabrics();
        async move { client.get_fabric(v1::GetFabricRequest {}).await }
    })
    .await
}

fn domain(fabric: v1::Fabric) -> Result<Fabric, Error> {
    let wrong =
        |error| Error::Config(format!("the cluster's fabric cannot be read by this railctl: {error}"));
    Fabric::try_from(fabric).map_err(wrong)
}

async fn show(args: &Show, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let paint = Paint::of(args.color, std::io::stdout().is_terminal());
    if let Some(file) = &args.file {
        let fabric = document(file)?;
        let picture = Picture::of(&fabric);
        drawn(args.svg.as_deref(), &picture)?;
        let names = || picture.pods.iter().map(|pod| format!("pod/{}", pod.name)).collect();
        let wire = proto_wire::convert::compact_fabric(&fabric);
        let table = |_| render::signs(&controller_fabric::draw::text(&picture), paint);
        return print(&render::render(args.output, &wire, "rail.v1.Fabric", names, table)?);
    }
    let api = api()?;
    let seen = repeat("get the topology", |_| {
        let mut client = api.fabrics();
        async move { client.get_topology(v1::GetTopologyRequest {}).await }
    })
    .await?;
    let nodes: usize = seen.pods.iter().map(|pod| pod.nodes.len()).sum();
    let in_full = args.output == Output::Wide || (nodes <= IN_FULL && seen.pods.len() <= IN_FULL);
    let picture = if args.svg.is_some() || !in_full {
        let fabric = match clusters(&api).await {
            Ok(fabric) => Some(domain(fabric)?),
            Err(Error::Rpc { error, .. }) if error.class == ErrorClass::NotFound => None,
            Err(error) => return Err(error),
        };
        render::picture(&seen, fabric.as_ref())
    } else {
        Picture::default()
    };
    drawn(args.svg.as_deref(), &picture)?;
    let names = || seen.pods.iter().map(|pod| format!("pod/{}", pod.name)).collect();
    let table = |wide: bool| {
        if wide || in_full {
            render::topology(&seen, paint)
        } else {
            render::drawn_topology(&picture, &seen.findings, paint)
        }
    };
    print(&render::render(args.output, &seen, "rail.v1.Topology", names, table)?)
}

fn drawn(file: Option<&Path>, picture: &Picture) -> Result<(), Error> {
    let Some(path) = file else { return Ok(()) };
    let written = std::fs::write(path, controller_fabric::draw::svg(picture));
    written.map_err(|source| Error::File { action: "write", path: path.to_owned(), source })?;
    eprintln!("drawn into {}", path.display());
    Ok(())
}

async fn compare(args: &Verify, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let fabric = planned(args.file.as_deref(), &api).await?;
    let heard = match &args.lldp {
        Some(file) => from_file(file)?,
        None => reported(&fabric, &api()?).await?,
    };
    if heard.is_empty() {
        let why = "nobody has heard a switch: is lldpd running on the servers, and do the switches send LLDP? Or give --lldp FILE";
        return Err(Error::NotFound(why.to_owned()));
    }
    let verdict = verify(&fabric, &heard, args.ports);
    print(&render::verdict(&verdict, args.output))?;
    if verdict.is_right() { Ok(()) } else { Err(Error::Differs(render::differences(&verdict))) }
}

fn from_file(file: &Path) -> Result<Vec<Neighbor>, Error> {
    let (shown, text) = read(file)?;
    let heard = lldp::read(&text).map_err(|error| Error::Document(format!("{shown}: {error}")))?;
    for fault in &heard.faults {
        eprintln!("fault: {}", placed(&shown, fault));
    }
    eprintln!(
        "{} facts: {} taken, {} left out; {} other lines",
        heard.facts,
        heard.neighbors.len(),
        heard.left_out,
        heard.other_lines
    );
    Ok(heard.neighbors)
}

/// What agents have reported to the controller. A document may name the RDMA device where LLDP names the network device.
async fn reported(fabric: &Fabric, api: &Api) -> Result<Vec<Neighbor>, Error> {
    let mut planned: BTreeMap<NodeName, Vec<String>> = BTreeMap::new();
    for link in fabric.each_link() {
        planned.entry(link.node).or_default().push(link.nic);
    }
    let mut heard = Vec::new();
    for node in api.list_nodes().await?.nodes {
        let name = node.metadata.unwrap_or_default().name;
        let Ok(name) = NodeName::new(&name) else { continue };
        let inventory = node.status.unwrap_or_default().inventory.unwrap_or_default();
        for neighbor in inventory.neighbors {
            let own = planned.get(&name).map_or(&[][..], Vec::as_slice);
            let device =
                inventory.nics.iter().find(|nic| nic.netdev == neighbor.netdev).map(|nic| &nic.device);
            let nic = device.filter(|device| !own.contains(&neighbor.netdev) && own.contains(device));
            heard.push(Neighbor {
                node: name.clone(),
                nic: nic.unwrap_or(&neighbor.netdev).clone(),
                switch: neighbor.switch,
                port: neighbor.port,
            });
        }
    }
    Ok(heard)
}
