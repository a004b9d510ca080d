//! Who may write a ring: one peer by one queue pair, where the device has memory windows; and what is done where it has none.

use std::time::Instant;

use node_agent_engine_transport::Wiring;
use node_agent_engine_transport::carrier::{Carrier, ENTROPY, News};
use node_agent_engine_verbs::VerbsCarrier;
use node_agent_engine_verbs::offer::Offer;
use node_agent_ipc::pieces::Source;

use crate::faults::{BINDS_NOTHING, FAILS};
use crate::world::{MW, Net, all_reduce, leave, together};

#[test]
fn a_ring_is_written_by_its_own_peer_only() {
    let mut net = Net::new(3, 1);
    net.pairs = 2;
    let mut carriers = [0, 1, 2].map(|node| VerbsCarrier::open(&net.carrier_config(node)).unwrap());
    let mut open = |node: usize, peer: u16| carriers[node].open(0, peer, &[node as u8 + 1; ENTROPY]).unwrap();
    let (to_one, to_two, one, two) = (open(0, 1), open(0, 2), open(1, 0), open(2, 0));
    assert_eq!(net.fake.alive(net.device(0, 0), MW), 4, "a window for each queue pair");
    let decode = |offer: &[u8]| Offer::decode(offer).unwrap();
    // Node 2 has learnt where the ring of node 1 is, and the keys to it.
    let (mut stolen, ring) = (decode(&to_two.1), decode(&to_one.1));
    stolen.address = ring.address;
    stolen.pairs.iter_mut().zip(&ring.pairs).for_each(|(pair, theirs)| pair.rkey = theirs.rkey);
    carriers[0].join(to_one.0, &one.1).unwrap();
    carriers[0].join(to_two.0, &two.1).unwrap();
    carriers[1].join(one.0, &to_one.1).unwrap();
    carriers[2].join(two.0, &stolen.encode()).unwrap();
    let mut news = Vec::new();
    let mut send = |node: usize, channel| {
        carriers[node].send(channel, &[Source::from(&[9; 500][..])]).unwrap();
        news.clear();
        for _ in 0..20 {
            carriers.iter_mut().for_each(|carrier| carrier.check(Instant::now(), &mut news));
        }
        news.clone()
    };
    let said = send(2, two.0);
    assert!(
        matches!(&said[..], [News::Broken(channel, cause)] if *channel == two.0 && cause.to_string().contains("may not be written")),
        "{said:?}"
    );
    assert!(send(1, one.0).contains(&News::Readable(to_one.0)), "whose ring it is can write it");
}

/// No windows, or none that can be bound: rings are opened by their own key, and links come up.
#[test]
fn devices_without_windows_do_without() {
    for (fault, value) in [(FAILS + MW as i32, libc::EOPNOTSUPP), (BINDS_NOTHING, 0)] {
        let net = Net::new(2, 2);
        net.fake.fault(net.device(0, 1), fault, value);
        let done = together(net.engines(true), |n, engine| {
            engine.until(|e| e.rails.wiring() == Wiring::Done);
            all_reduce(n, engine, 300_000);
            leave(engine);
            (net.fake.alive(net.device(0, 0), MW), net.fake.alive(net.device(0, 1), MW))
        });
        assert_eq!(done[0].1, (1, 0), "windows on the rail that has them, and none on the other");
    }
}
