//! What the kernel says of the ports: any bytes are a bounded list of events.

use node_agent_engine_transport::tcp::port::message::{Event, Listing, decode, request};

/// Decodes them as they are, and behind a message that is right: what follows it changes nothing of it.
pub fn run(data: &[u8]) {
    let events = decode(data);
    assert!(events.len() <= data.len() / 16, "an event takes a header at least");
    assert_eq!(decode(data), events, "the same bytes say the same");
    let mut done = 16u32.to_ne_bytes().to_vec();
    done.extend(3u16.to_ne_bytes());
    done.extend([0; 10]);
    done.extend(data);
    let mut expected = vec![Event::Done { interrupted: false }];
    expected.extend(events);
    assert_eq!(decode(&done), expected);
    assert!([Listing::Links, Listing::Addresses].iter().all(|&listing| decode(&request(listing)).is_empty()));
}
