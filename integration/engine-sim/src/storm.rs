//! Faults at random moments: rails are cut and repaired, fall silent in one direction or both, ports go and come, payloads are
//! damaged, rails are drained. One rail of each pair of nodes is always left alone, so that work can go on.

use proto_random::Random;

use crate::sim::{Net, World};

/// Rails that flap faster than they can prove themselves let nothing pass.
const MOST_FAULTS: usize = 60;

/// A source of random faults that strike between the steps of a run.
pub struct Storm {
    rng: Random,
    /// About one fault in so many steps.
    every: usize,
    /// Ports that are down.
    down: Vec<(usize, usize)>,
    /// How many faults there were.
    pub faults: usize,
}

impl Storm {
    /// The storm of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Random::new(seed ^ 0x5702_0002);
        let every = [3, 10, 40, 200][rng.index(4)];
        Storm { rng, every, down: Vec::new(), faults: 0 }
    }

    /// Between two steps of the network.
    pub fn blow(&mut self, net: &mut Net, world: &World) {
        let nodes = world.nodes();
        if nodes < 2 || self.rng.index(self.every) > 0 {
            return;
        }
        if self.faults > MOST_FAULTS {
            net.damage = 0;
            return;
        }
        let a = self.rng.index(nodes);
        let b = (a + 1 + self.rng.index(nodes - 1)) % nodes;
        let rail = self.rng.index(world.rails);
        let spare = |a: usize, b: usize| (0..world.rails).any(|r| r != rail && is_whole(net, a, b, r));
        match self.rng.index(10) {
            0 if spare(a, b) => net.cut(a, b, rail),
            1 => net.remediate(a, b, rail),
            2 if spare(a, b) => net.darken(a, b, rail),
            3 if spare(a, b) => net.darken_one(a, b, rail),
            4 if !self.down.iter().any(|&(n, r)| r == rail && (n == a || n == b)) => net.lighten(a, b, rail),
            5 if !self.down.contains(&(a, rail)) && (0..nodes).all(|b| a == b || spare(a, b)) => {
                net.port_down(a, rail);
                self.down.push((a, rail));
            }
            6 if !self.down.is_empty() => {
                let (node, rail) = self.down.swap_remove(self.rng.index(self.down.len()));
                net.port_up(node, rail);
                // A link has two ends: it stays dark while the other end's port is down.
                let others: Vec<usize> = self.down.iter().filter(|d| d.1 == rail).map(|d| d.0).collect();
                others.into_iter().for_each(|other| net.darken(node, other, rail));
            }
            7 => net.drain(a, rail, true),
            8 => net.drain(a, rail, false),
            9 if world.checksum => net.damage = [0, 3, 10, 40][self.rng.index(4)],
            _ => return,
        }
        self.faults += 1;
    }
}

fn is_whole(net: &Net, a: usize, b: usize, rail: usize) -> bool {
    let broken = net.broken.contains(&(a.min(b), a.max(b), rail));
    !broken && !net.dark.contains(&(a, b, rail)) && !net.dark.contains(&(b, a, rail))
}
