//! The kinds of custom resources, and what they are called. [pure]

use kube::core::discovery::ApiResource;

/// The group of all of them.
pub const GROUP: &str = "railyard.io";
/// The version of all of them.
pub const VERSION: &str = "v1alpha1";
/// The finalizer by which Railyard is told of a deletion before the object is gone.
pub const FINALIZER: &str = "railyard.io/operator";
/// Under which name the operator owns fields.
pub const MANAGER: &str = "rail-operator";

/// A kind of custom resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The fabric document of the cluster.
    Fabric,
    /// A tenant, its quota and its queues.
    Tenant,
    /// The class-of-service profile of all NICs.
    Profile,
    /// A job.
    Job,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fabric, Self::Tenant, Self::Profile, Self::Job];

    /// As objects say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fabric => "RailFabric",
            Self::Tenant => "RailTenant",
            Self::Profile => "RailProfile",
            Self::Job => "RailJob",
        }
    }

    /// In addresses.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Fabric => "railfabrics",
            Self::Tenant => "railtenants",
            Self::Profile => "railprofiles",
            Self::Job => "railjobs",
        }
    }

    /// One of it, as `kubectl` takes it.
    #[must_use]
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Fabric => "railfabric",
            Self::Tenant => "railtenant",
            Self::Profile => "railprofile",
            Self::Job => "railjob",
        }
    }

    /// Whether objects of it are in namespaces.
    #[must_use]
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::Job)
    }

    /// Whether Railyard has one thing of it alone, so that of several objects one counts.
    #[must_use]
    pub const fn is_single(self) -> bool {
        matches!(self, Self::Fabric | Self::Profile)
    }

    /// The message of `rail.v1` that the spec is, with the fields beside it.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Fabric => "rail.v1.FabricSpec",
            Self::Tenant => "rail.v1.TenantSpec",
            Self::Profile => "rail.v1.ApplyQosRequest",
            Self::Job => "rail.v1.JobSpec",
        }
    }

    /// As the client of the API server names it.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        ApiResource {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.name().to_owned(),
            plural: self.plural().to_owned(),
        }
    }
}
