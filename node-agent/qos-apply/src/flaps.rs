//! Links that go down and come up because of an edit that is made here: whoever watches links knows before, so that our own doing is no
//! fault of the cable.

use std::{
    collections::BTreeMap,
    io,
    time::{Duration, Instant},
};

use node_agent_qos::{Blast, Stage};
use tokio::sync::watch;

use crate::{AuditLine, Journal, Record};

/// Until when the link of each network device may go down and up.
pub type Flaps = BTreeMap<String, Instant>;

/// From the beginning of an edit on: twice what the link of a driver that was reloaded may take.
const WITHIN: Duration = Duration::from_secs(60);

/// A journal that reports links that will go down. A record is saved before what it says is done, and so it is reported before.
pub struct Telling<J> {
    journal: J,
    flaps: watch::Sender<Flaps>,
}

impl<J: Journal> Telling<J> {
    /// What is kept goes to `journal`, what is reported to `flaps`.
    pub fn new(journal: J, flaps: watch::Sender<Flaps>) -> Self {
        Self { journal, flaps }
    }
}

/// Whether the edit that a record says is about to be made, or undone, takes the link down.
fn takes_link(record: &Record) -> bool {
    let (Stage::Applying { edit } | Stage::RollingBack { edit, .. }) = record.apply.stage else {
        return false;
    };
    record
        .apply
        .edits
        .get(edit)
        .is_some_and(|edit| matches!(edit.blast, Blast::LinkFlap | Blast::TrafficLoss))
}

impl<J: Journal> Journal for Telling<J> {
    fn load(&mut self) -> io::Result<Vec<Record>> {
        self.journal.load()
    }

    fn unreadable(&mut self) -> BTreeMap<String, String> {
        self.journal.unreadable()
    }

    fn save(&mut self, record: &Record) -> io::Result<()> {
        if takes_link(record) {
            let now = Instant::now();
            self.flaps.send_modify(|flaps| {
                flaps.retain(|_, until| *until > now);
                flaps.insert(record.netdev().to_owned(), now + WITHIN);
            });
        }
        self.journal.save(record)
    }

    fn audit(&mut self, line: &AuditLine) -> io::Result<()> {
        self.journal.audit(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Keeper, MemoryJournal, Modelled, checks::Timing, modelled};
    use node_agent_netlink::fake::Style;
    use node_agent_qos::{Options, QosProfile};

    use super::*;

    /// A journal that remembers what had been reported when each record was saved.
    struct Heard(MemoryJournal, watch::Receiver<Flaps>, std::sync::mpsc::Sender<(bool, bool)>);

    impl Journal for Heard {
        fn load(&mut self) -> io::Result<Vec<Record>> {
            self.0.load()
        }

        fn save(&mut self, record: &Record) -> io::Result<()> {
            let reported = self.1.borrow().contains_key(record.netdev());
            self.2.send((takes_link(record), reported)).unwrap();
            self.0.save(record)
        }

        fn audit(&mut self, line: &AuditLine) -> io::Result<()> {
            self.0.audit(line)
        }
    }

    #[test]
    fn a_link_that_an_edit_takes_down_is_told_before_the_edit() {
        let nic = Modelled { netdev: "rail0".into(), device: "mlx5_0".into(), pci: "0000:10:00.0".into() };
        let kernel = Arc::new(modelled(&[nic], Style::Mlx5, "6.12.0"));
        let (flaps, reported) = watch::channel(Flaps::new());
        let (report, saved) = std::sync::mpsc::channel();
        let journal = Telling::new(Heard(MemoryJournal::default(), reported, report), flaps);
        let (profile, options) = (QosProfile::default(), Options::default());
        let mut keeper =
            Keeper::new(kernel, Box::new(journal), profile, options, "agent", Timing::default()).unwrap();
        // The server is drained, so that PFC may be turned on.
        keeper.turn(Duration::from_millis(500), true).unwrap();
        let saved: Vec<(bool, bool)> = saved.try_iter().collect();
        let takes = saved.iter().position(|(takes, _)| *takes).unwrap();
        assert!(saved[takes..].iter().all(|(_, reported)| *reported), "{saved:?}");
        assert!(saved[..takes].iter().all(|(_, reported)| !*reported), "{saved:?}");
    }
}
