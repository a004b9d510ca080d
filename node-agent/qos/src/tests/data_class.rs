//! What of the data class is not known.

use super::recorded::{HOSTS, ports};
use crate::{Observed, QosProfile, Reading, data_class, diff::diff, vendor};

/// Of the default profile.
fn unknown(port: &Observed) -> Vec<String> {
    let vendor = vendor::of(port);
    let findings = diff(&QosProfile::default(), port, vendor).findings;
    data_class::unverified(&findings, vendor).map(|finding| finding.item.unwrap().to_string()).collect()
}

type Lose = fn(&mut Observed, bool);

fn lost<T>(unreadable: bool) -> Reading<T> {
    if unreadable { Reading::Unreadable("EIO".into()) } else { Reading::Unsupported }
}

/// Also where the kernel left it out of its answer: it does that where the driver failed to tell.
#[test]
fn what_the_driver_can_set_and_nobody_read_is_not_verified() {
    let parts: [(&str, Lose); 3] = [
        ("pfc", |port, how| port.settings.pfc = lost(how)),
        ("tc-tsa 0", |port, how| port.settings.ets = lost(how)),
        ("dscp 26", |port, how| port.settings.app = lost(how)),
    ];
    for (host, driver) in HOSTS {
        for port in ports(host) {
            assert!(unknown(&port).is_empty(), "{host}: {:?}", unknown(&port));
            for (item, lose) in parts {
                for unreadable in [false, true] {
                    let mut port = port.clone();
                    lose(&mut port, unreadable);
                    let reported = unknown(&port).iter().any(|one| one == item);
                    assert_eq!(reported, driver != "rxe", "{host} {item} {unreadable}");
                }
            }
        }
    }
}
