//! Tenants and their documents: tenants, nodes and join tokens as administrators change them (`tenants`), queues, service classes, licenses
//! and reservations (`documents`), secrets and configs (`values`), webhooks, what was deleted and can come back (`deleted`), and the numbers
//! of tenants and queues (`figures`).

pub mod deleted;
pub(crate) mod documents;
pub mod figures;
pub(crate) mod tenants;
pub mod values;
pub mod webhooks;
