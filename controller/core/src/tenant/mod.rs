//! Tenants and their documents: tenants (`tenants`), queues, service classes, licenses and reservations (`documents`), secrets and configs
//! (`values`), webhooks, and what was deleted and can come back (`deleted`).

mod deleted;
mod documents;
mod tenants;
pub mod values;
pub mod webhooks;
