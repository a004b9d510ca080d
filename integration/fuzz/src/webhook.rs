//! URLs of receivers and networks that may be called: what is taken is understood in one way only, and no form of an address that is
//! not public is called by mistake.

use std::net::IpAddr;

use proto_model::{WebhookUrl, address};

/// The bytes as an URL, as a network, and as an address.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(url) = WebhookUrl::new(text) {
        assert_eq!(url.as_str(), text);
        assert!(text.is_ascii() && url.path().starts_with('/') && !url.host().is_empty());
        let whole =
            format!("http{}://{}{}", if url.is_tls() { "s" } else { "" }, url.authority(), url.path());
        let again = WebhookUrl::new(&whole);
        assert!(again.is_ok_and(
            |again| (again.host(), again.port(), again.path()) == (url.host(), url.port(), url.path())
        ));
        // Nothing of a path is shown to who may not see it.
        assert!(url.masked().ends_with(if url.path() == "/" { "/" } else { "/..." }));
    }
    if let Ok(network) = text.parse::<address::Cidr>() {
        assert_eq!(network.to_string().parse(), Ok(network));
    }
    if let Ok(IpAddr::V4(address)) = text.parse::<IpAddr>() {
        // However it is written, it is the same receiver.
        let refused = address::refused(address.into(), &[]);
        assert_eq!(address::refused(address.to_ipv6_mapped().into(), &[]), refused);
    }
}
