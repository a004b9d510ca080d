//! rail-operator: Railyard's resources as Kubernetes' own, and the health of rails on its nodes.
