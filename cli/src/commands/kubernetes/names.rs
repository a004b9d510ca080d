//! Names of Kubernetes and of Linux that definitions are made of, and what is wrong with one.

/// A label of a domain name (RFC 1123), as names of namespaces and of definitions are.
pub fn label(name: &str) -> Result<(), &'static str> {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match name {
        "" => Err("is empty"),
        _ if name.len() > 63 => Err("has more than 63 characters"),
        _ if !name.chars().all(inside) => Err("has other characters than a-z, 0-9 and -"),
        _ if name.starts_with('-') || name.ends_with('-') => Err("begins or ends with -"),
        _ => Ok(()),
    }
}

/// A network device of Linux.
pub fn device(name: &str) -> Result<(), &'static str> {
    let inside = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '%');
    match name {
        "" => Err("is empty"),
        "." | ".." => Err("is no name"),
        _ if name.len() > 15 => Err("has more than 15 characters, which no network device has"),
        _ if !name.chars().all(inside) => Err("has a blank, or a character that no network device has"),
        _ => Ok(()),
    }
}

/// Whether a NIC is called as drivers call RDMA devices, beside which its network device has another name.
pub fn is_rdma_device(name: &str) -> bool {
    const DRIVERS: [&str; 8] = ["mlx4_", "mlx5_", "bnxt_re", "irdma", "hns_", "erdma_", "rxe", "efa_"];
    DRIVERS
        .iter()
        .any(|driver| name.strip_prefix(driver).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit())))
}

/// A resource that a device plugin offers: DOMAIN/NAME.
pub fn resource(name: &str) -> Result<(), &'static str> {
    let Some((domain, own)) = name.split_once('/') else { return Err("is not DOMAIN/NAME") };
    if domain.len() > 253 || domain.split('.').any(|part| label(part).is_err()) {
        return Err("has no domain before its /");
    }
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: char| c.is_ascii_alphanumeric();
    let whole = own.starts_with(ends) && own.ends_with(ends) && own.chars().all(inside) && own.len() <= 63;
    if whole { Ok(()) } else { Err("has a name behind its / that is no name of a resource") }
}
