//! Railyard beside Kubernetes: what is rendered for it. `rail-dra-driver` gives rails to pods; this is for sites without it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::DocumentFormat;

#[derive(Debug, Subcommand)]
pub enum KubernetesCommand {
    /// Print a NetworkAttachmentDefinition of Multus for each rail of the fabric, for sites whose pods get rails without `rail-dra-driver`
    ///
    /// A fabric document says which NIC serves which rail. In what depends on the rail, {k} stands for its index, and {p} for that of
    /// the plane: --device, --resource, --range and --exclude. All that is wrong is told at once.
    #[command(
        after_help = "Example:\n  railctl kubernetes networks -f fabric.yaml --device rail{k} --mtu 9000 --ipam whereabouts --range 10.{k}.0.0/16\n  railctl kubernetes networks --type sriov --resource railyard.io/rail{k} --vlan 100 --rdma | kubectl apply -f -"
    )]
    Networks(KubernetesNetworks),
}

/// The plugin that brings a rail into a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum NetworkType {
    /// The NIC itself moves into the pod; nobody else has it meanwhile
    #[default]
    HostDevice,
    /// An interface with an address of its own on the NIC, which the server keeps
    Macvlan,
    /// An interface with the NIC's own Ethernet address; needs --ipam static or whereabouts
    Ipvlan,
    /// A virtual function, which a device plugin allocates (--resource)
    Sriov,
}

/// Who gives pods their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum AddressManagement {
    /// Nobody
    #[default]
    None,
    /// Each pod says its own, in its annotation
    Static,
    /// whereabouts, from --range
    Whereabouts,
}

#[derive(Debug, Clone, Args)]
pub struct KubernetesNetworks {
    /// Fabric document to take in place of the cluster's; - reads standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// How a rail gets into a pod
    #[arg(long = "type", value_enum, default_value_t)]
    pub kind: NetworkType,
    /// Namespace of the definitions: pods of other ones name it (NAMESPACE/NAME)
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// Network device of each rail, where the document has none or another name: rail{k}, or rail{k}p{p} where rails have two planes
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// For sriov: the resource by which a device plugin offers virtual functions of the rail: railyard.io/rail{k}
    #[arg(long, value_name = "DOMAIN/NAME")]
    pub resource: Option<String>,
    /// MTU in bytes; default: that of the device
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,
    /// VLAN id. macvlan and ipvlan use the device's VLAN interface (DEVICE.VLAN), which is to be there
    #[arg(long, value_name = "ID")]
    pub vlan: Option<u32>,
    /// For sriov: also move the RDMA device of the virtual function into the pod (plugin rdma; the servers' RDMA subsystem is in exclusive mode)
    #[arg(long)]
    pub rdma: bool,
    /// Who gives addresses
    #[arg(long, value_enum, default_value_t)]
    pub ipam: AddressManagement,
    /// For whereabouts: addresses of each rail, 10.{k}.0.0/16; rails have no address in common
    #[arg(long, value_name = "CIDR")]
    pub range: Option<String>,
    /// For whereabouts: part of a range that no pod gets, for example what servers have; may be repeated
    #[arg(long, value_name = "CIDR")]
    pub exclude: Vec<String>,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t)]
    pub output: DocumentFormat,
}
