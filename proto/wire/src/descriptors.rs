//! The descriptors of rail.v1, for reflection, canonical JSON and the OpenAPI document.

use std::sync::OnceLock;

use prost_reflect::DescriptorPool;

/// The encoded `FileDescriptorSet` of rail.v1 and what it imports, with comments.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rail.v1.binpb"));

/// All messages and services of rail.v1.
///
/// Never empty in practice: a test decodes the embedded set. Should it ever be damaged, look-ups find nothing.
#[must_use]
pub fn descriptor_pool() -> DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap_or_default()).clone()
}

#[cfg(test)]
mod tests {
    use super::descriptor_pool;

    #[test]
    fn pool_holds_every_service() {
        let mut names: Vec<String> = descriptor_pool().services().map(|s| s.name().to_owned()).collect();
        names.sort();
        let expected = [
            "AgentService",
            "AuditService",
            "ConfigService",
            "ControllerService",
            "DeletedService",
            "DocumentService",
            "EnrollService",
            "FabricService",
            "HealthService",
            "JobService",
            "LicenseService",
            "NodeService",
            "QosService",
            "QueueService",
            "RailService",
            "ReservationService",
            "ScheduleService",
            "SecretService",
            "ServiceClassService",
            "StepService",
            "SwitchAgentService",
            "SwitchService",
            "TenantService",
            "UsageService",
            "WebhookService",
        ];
        assert_eq!(names, expected);
    }
}
