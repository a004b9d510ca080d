//! Objects as Railyard's own documents. [pure]

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use prost_reflect::DynamicMessage;
use proto_manifest::{Findings, Format, read_message};
use proto_wire::{
    descriptor_pool,
    v1::{self, document::Document as Any},
};
use serde_json::{Value as Json, json};

use crate::{
    crds,
    decide::Refusal,
    kind::{GROUP, Kind},
    object::Object,
};

/// By this label a job in Railyard is known as the one of an object.
pub const UID_LABEL: &str = "railyard.io/kubernetes-uid";
/// The tenant of a namespace: a label.
pub const TENANT_LABEL: &str = "railyard.io/tenant";
/// Further tenants of a namespace, separated by commas: an annotation.
pub const TENANTS_ANNOTATION: &str = "railyard.io/tenants";
/// The highest priority of a namespace's jobs: an annotation; 0 without it.
pub const PRIORITY_ANNOTATION: &str = "railyard.io/max-priority";
/// Service classes that a namespace's jobs may name, separated by commas: an annotation.
pub const CLASSES_ANNOTATION: &str = "railyard.io/service-classes";

/// What an object asks Railyard for.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// Documents that are applied in their order.
    Documents {
        /// The documents.
        documents: Vec<v1::Document>,
        /// Much fewer servers than the present fabric cables are meant.
        allow_shrink: bool,
    },
    /// A rollout of a class-of-service profile.
    Profile(v1::ApplyQosRequest),
    /// A job of this tenant.
    Job {
        /// The tenant.
        tenant: String,
        /// The job.
        job: Box<v1::Job>,
    },
}

/// What a namespace says of tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Whose jobs its jobs are where they do not say it.
    pub tenant: Option<String>,
    /// All that its jobs may name.
    pub tenants: BTreeSet<String>,
    /// The highest priority that its jobs may have.
    pub max_priority: i32,
    /// The service classes that its jobs may name.
    pub classes: BTreeSet<String>,
}

impl Namespace {
    /// Reads the label and the annotations.
    #[must_use]
    pub fn of(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Self {
        let names = |annotation: &str| -> BTreeSet<String> {
            let names = annotations.get(annotation).map(String::as_str).unwrap_or_default().split(',');
            names.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let tenant = labels.get(TENANT_LABEL).cloned();
        let mut tenants = names(TENANTS_ANNOTATION);
        tenants.extend(tenant.clone());
        let max_priority = annotations.get(PRIORITY_ANNOTATION).and_then(|text| text.trim().parse().ok());
        Self {
            tenant,
            tenants,
            max_priority: max_priority.unwrap_or_default(),
            classes: names(CLASSES_ANNOTATION),
        }
    }

    /// Whether a job of this namespace may say this. The operator submits with an administrator's authority, whom Railyard refuses neither.
    ///
    /// # Errors
    /// A priority or a service class that an administrator has not allowed.
    fn allows(&self, namespace: &str, spec: &v1::JobSpec) -> Result<(), Refusal> {
        let refused = |reason: &str, message: String| {
            Err(Refusal { reason: reason.to_owned(), message, is_final: false })
        };
        if spec.priority > self.max_priority {
            let message = format!(
                "spec.priority: namespace {namespace} may use at most {}, not {}: an administrator says more in the namespace's annotation {PRIORITY_ANNOTATION}",
                self.max_priority, spec.priority
            );
            return refused("PriorityNotAllowed", message);
        }
        if !spec.service_class.is_empty() && !self.classes.contains(&spec.service_class) {
            let message = format!(
                "spec.serviceClass: namespace {namespace} may not use {}: an administrator names it in the namespace's annotation {CLASSES_ANNOTATION}",
                spec.service_class
            );
            return refused("ServiceClassNotAllowed", message);
        }
        Ok(())
    }

    /// The tenant of a job of this namespace that names this one, or none.
    ///
    /// # Errors
    /// The namespace may not use it.
    pub fn tenant_of(&self, namespace: &str, named: Option<&str>) -> Result<String, Refusal> {
        let refused =
            |message: String| Refusal { reason: "TenantNotAllowed".to_owned(), message, is_final: false };
        match named.or(self.tenant.as_deref()) {
            Some(tenant) if self.tenants.contains(tenant) => Ok(tenant.to_owned()),
            Some(tenant) => Err(refused(format!(
                "spec.tenant: namespace {namespace} may not use tenant {tenant}: an administrator names it in the namespace's annotation {TENANTS_ANNOTATION}"
            ))),
            None => Err(refused(format!(
                "namespace {namespace} has no tenant: an administrator gives it the label {TENANT_LABEL}"
            ))),
        }
    }
}

/// What an object asks for.
///
/// # Errors
/// A field that cannot be read, with its path; or a tenant that the namespace may not use.
pub fn wanted(object: &Object, namespace: &Namespace) -> Result<Wanted, Refusal> {
    let mut spec = object.spec.clone();
    let mut beside = json!({});
    for name in crds::beside(object.kind) {
        beside[*name] = spec.as_object_mut().and_then(|fields| fields.remove(*name)).unwrap_or_default();
    }
    let metadata = v1::Metadata { name: object.name.clone(), ..v1::Metadata::default() };
    match object.kind {
        Kind::Fabric => {
            let spec = Some(read::<v1::FabricSpec>(&spec, "rail.v1.FabricSpec", "spec")?);
            let fabric = v1::Fabric { metadata: Some(metadata), spec, ..v1::Fabric::default() };
            let allow_shrink = beside["allowShrink"] == true;
            Ok(Wanted::Documents { documents: vec![document(Any::Fabric(fabric))], allow_shrink })
        }
        Kind::Tenant => {
            let spec = Some(read::<v1::TenantSpec>(&spec, "rail.v1.TenantSpec", "spec")?);
            let tenant = v1::Tenant { metadata: Some(metadata), spec, ..v1::Tenant::default() };
            let mut documents = vec![document(Any::Tenant(tenant))];
            documents.extend(queues(&object.name, &beside["queues"])?);
            Ok(Wanted::Documents { documents, allow_shrink: false })
        }
        Kind::Profile => {
            spec["document"] = beside["profile"].to_string().into();
            read(&spec, "rail.v1.ApplyQosRequest", "spec").map(Wanted::Profile)
        }
        Kind::Job => {
            let tenant = namespace.tenant_of(&object.namespace, beside["tenant"].as_str())?;
            let labels = [
                (UID_LABEL.to_owned(), object.uid.clone()),
                (format!("{GROUP}/kubernetes-namespace"), object.namespace.clone()),
            ];
            let metadata = v1::Metadata { labels: labels.into(), ..metadata };
            let spec = read::<v1::JobSpec>(&spec, "rail.v1.JobSpec", "spec")?;
            if !spec.array.is_empty() {
                let message = "spec.array: an object is one job: make an object of each element".to_owned();
                return Err(Refusal { reason: "Invalid".to_owned(), message, is_final: true });
            }
            namespace.allows(&object.namespace, &spec)?;
            let spec = Some(spec);
            let job = Box::new(v1::Job { metadata: Some(metadata), spec, ..v1::Job::default() });
            Ok(Wanted::Job { tenant, job })
        }
    }
}

/// The tenants in which a job of an object can be of which it is not known whose it is.
#[must_use]
pub fn tenants(object: &Object, namespace: &Namespace) -> BTreeSet<String> {
    let named = object.spec["tenant"].as_str().map(str::to_owned);
    namespace.tenants.iter().cloned().chain(named).collect()
}

/// Puts one thing into the wire's envelope.
#[must_use]
pub const fn document(any: Any) -> v1::Document {
    v1::Document { document: Some(any) }
}

fn queues(tenant: &str, queues: &Json) -> Result<Vec<v1::Document>, Refusal> {
    let all = queues.as_array().map_or(&[][..], Vec::as_slice);
    let mut documents = Vec::with_capacity(all.len());
    for (index, queue) in all.iter().enumerate() {
        let mut queue = queue.clone();
        let name = queue.as_object_mut().and_then(|fields| fields.remove("name"));
        let name = name.as_ref().and_then(Json::as_str).unwrap_or_default().to_owned();
        let spec =
            Some(read::<v1::QueueSpec>(&queue, "rail.v1.QueueSpec", &format!("spec.queues[{index}]"))?);
        let metadata = v1::Metadata { name, tenant: tenant.to_owned(), ..v1::Metadata::default() };
        let queue = v1::Queue { metadata: Some(metadata), spec, ..v1::Queue::default() };
        documents.push(document(Any::Queue(queue)));
    }
    Ok(documents)
}

/// Reads JSON strictly as a message; `path` is where it stands in the object.
fn read<M: Message + Default>(json: &Json, message: &str, path: &str) -> Result<M, Refusal> {
    let refused = |message: String| Refusal { reason: "Invalid".to_owned(), message, is_final: true };
    let descriptor = descriptor_pool().get_message_by_name(message);
    let descriptor = descriptor.ok_or_else(|| refused(format!("{message} is not known")))?;
    let read = read_message(path, json.to_string().as_bytes(), Format::Json, &descriptor);
    let read: DynamicMessage = read.map_err(|findings| refused(said(path, &findings)))?;
    read.transcode_to::<M>().map_err(|error| refused(format!("{path}: {error}")))
}

/// Findings by the paths of their fields; lines and columns are of no text that anybody has.
fn said(path: &str, findings: &Findings) -> String {
    let each = findings.items.iter().map(|finding| match finding.field.as_str() {
        "" => format!("{path}: {}", finding.message),
        field => format!("{path}.{field}: {}", finding.message),
    });
    let mut text = each.collect::<Vec<_>>().join("; ");
    if findings.more > 0 {
        text += &format!("; and {} more", findings.more);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Policy;

    fn object(kind: Kind, spec: Json) -> Object {
        Object {
            kind,
            name: "a".to_owned(),
            namespace: "ml".to_owned(),
            uid: "u1".to_owned(),
            generation: 1,
            made: String::new(),
            is_deleted: false,
            has_finalizer: false,
            policy: Policy::Delete,
            spec,
            status_json: Json::Null,
            status: None,
        }
    }

    fn namespace(label: Option<&str>, annotations: &[(&str, &str)]) -> Namespace {
        let pair = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        let labels = label.map(|tenant| pair((TENANT_LABEL, tenant))).into_iter().collect();
        Namespace::of(&labels, &annotations.iter().copied().map(pair).collect())
    }

    fn job(tenant: Option<&str>) -> Object {
        let mut spec = json!({"gang": {"nodes": 2, "gpusPerNode": 1}, "command": {"argv": ["true"]}, "deletionPolicy": "Retain"});
        if let Some(tenant) = tenant {
            spec["tenant"] = tenant.into();
        }
        object(Kind::Job, spec)
    }

    #[test]
    fn a_job_is_of_a_tenant_that_its_namespace_may_use() {
        let of = |named: Option<&str>, namespace: &Namespace| match wanted(&job(named), namespace) {
            Ok(Wanted::Job { tenant, job }) => {
                assert_eq!(job.metadata.unwrap().labels[UID_LABEL], "u1");
                Ok(tenant)
            }
            Err(refusal) => Err(refusal.reason),
            other => panic!("{other:?}"),
        };
        let refused = Err("TenantNotAllowed".to_owned());
        let bare = namespace(None, &[]);
        let labelled = namespace(Some("nlp"), &[(TENANTS_ANNOTATION, " vision, ")]);
        assert_eq!(of(None, &bare), refused);
        assert_eq!(of(Some("nlp"), &bare), refused);
        assert_eq!(of(None, &labelled), Ok("nlp".to_owned()));
        assert_eq!(of(Some("vision"), &labelled), Ok("vision".to_owned()));
        assert_eq!(of(Some("other"), &labelled), refused);
    }

    #[test]
    fn what_an_administrator_may_say_a_namespace_may_only_where_one_allows_it() {
        let said = |field: &str, value: Json, annotations: &[(&str, &str)]| {
            let mut job = job(None);
            job.spec[field] = value;
            wanted(&job, &namespace(Some("t"), annotations)).map(drop).map_err(|refusal| refusal.reason)
        };
        let (high, class) = (Err("PriorityNotAllowed".to_owned()), Err("ServiceClassNotAllowed".to_owned()));
        assert_eq!(said("priority", 1.into(), &[]), high);
        assert_eq!(said("priority", (-5).into(), &[]), Ok(()));
        assert_eq!(said("priority", 100.into(), &[(PRIORITY_ANNOTATION, "100")]), Ok(()));
        assert_eq!(said("priority", 101.into(), &[(PRIORITY_ANNOTATION, "100")]), high);
        assert_eq!(said("priority", 1.into(), &[(PRIORITY_ANNOTATION, "much")]), high);
        assert_eq!(said("serviceClass", "gold".into(), &[]), class);
        assert_eq!(said("serviceClass", "gold".into(), &[(CLASSES_ANNOTATION, "iron, gold")]), Ok(()));
    }

    #[test]
    fn an_array_is_refused() {
        let mut array = job(None);
        array.spec["array"] = "0-3".into();
        let refusal = wanted(&array, &namespace(Some("t"), &[])).unwrap_err();
        assert!(refusal.is_final && refusal.message.starts_with("spec.array: "), "{refusal:?}");
    }

    #[test]
    fn a_job_that_nobody_knows_of_may_be_in_any_tenant_that_is_named() {
        let found = tenants(&job(Some("old")), &namespace(Some("nlp"), &[(TENANTS_ANNOTATION, "vision")]));
        assert_eq!(found, ["nlp", "old", "vision"].map(str::to_owned).into());
    }

    #[test]
    fn a_wrong_field_is_named_by_its_path() {
        let said = |object: &Object| wanted(object, &namespace(Some("t"), &[])).unwrap_err().message;
        let mut wrong = job(None);
        wrong.spec["gang"]["gpusPerNod"] = 1.into();
        assert!(said(&wrong).contains("spec.gang.gpusPerNod"), "{}", said(&wrong));
        let queues =
            object(Kind::Tenant, json!({"queues": [{"name": "n", "weight": 1}, {"name": "m", "weigth": 1}]}));
        assert!(said(&queues).contains("spec.queues[1].weigth"), "{}", said(&queues));
    }

    #[test]
    fn a_tenant_comes_before_its_queues_and_a_profile_goes_as_text() {
        let tenant = object(
            Kind::Tenant,
            json!({"quota": {"gpus": 8, "storedBytes": 5}, "queues": [{"name": "n", "weight": 2}]}),
        );
        let Ok(Wanted::Documents { documents, .. }) = wanted(&tenant, &Namespace::default()) else {
            panic!()
        };
        let [Some(Any::Tenant(tenant)), Some(Any::Queue(queue))] =
            [&documents[0], &documents[1]].map(|one| one.document.clone())
        else {
            panic!("{documents:?}")
        };
        assert_eq!(tenant.spec.unwrap().quota.unwrap().stored_bytes, 5);
        assert_eq!(queue.metadata.unwrap().tenant, "a");
        let profile = object(Kind::Profile, json!({"profile": {"mtu": 9000}, "reason": "why"}));
        let Ok(Wanted::Profile(request)) = wanted(&profile, &Namespace::default()) else { panic!() };
        assert_eq!((request.document.as_str(), request.reason.as_str()), ("{\"mtu\":9000}", "why"));
    }
}
