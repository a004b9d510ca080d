//! What is computed: ranks on nodes, their calls and inputs. All of it comes from one seed.

use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{Node, Time};
use node_agent_collective::{Algorithm, Call, Dtype, Memory, Operation, Plan, ReduceOp, Region};
use proto_random::Random;

use crate::reference;
use crate::sim::{Net, World};

/// Calls of every rank, and what they give.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The node of each rank.
    pub map: Vec<Node>,
    /// The calls of every rank, in order.
    pub calls: Vec<Call>,
    /// Whether outputs are inputs where that can be.
    pub in_place: bool,
    /// By call and rank.
    pub inputs: Vec<Vec<Vec<u8>>>,
}

fn pick<T: Copy>(rng: &mut Random, of: &[T]) -> T {
    of[rng.index(of.len())]
}

fn call(rng: &mut Random, world: usize) -> Call {
    let root = rng.index(world) as u32;
    let operations = [
        Operation::AllReduce,
        Operation::AllReduce,
        Operation::ReduceScatter,
        Operation::AllGather,
        Operation::Broadcast { root },
        Operation::AllToAll,
        Operation::Barrier,
    ];
    let count = match rng.index(8) {
        0 => 0,
        1 | 2 => 1 + rng.index(8),
        3..=5 => 1 + rng.index(300),
        _ => 300 + rng.index(900),
    };
    let (dtype, reduce) = (pick(rng, Dtype::ALL), pick(rng, ReduceOp::ALL));
    Call { operation: pick(rng, &operations), dtype, reduce, count: count as u64 }.canonical()
}

/// Inputs that make rounding and order visible, with some special values.
fn input(dtype: Dtype, bytes: usize, rng: &mut Random) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        let sign = pick(rng, &[1.0, -1.0]);
        let value = match rng.index(60) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -0.0,
            3 => 1e30 * sign,
            _ => rng.index(2000) as f64 / 97.0 * sign,
        };
        match dtype {
            Dtype::F32 => out.extend((value as f32).to_ne_bytes()),
            Dtype::F64 => out.extend(value.to_ne_bytes()),
            Dtype::F16 => out.extend(half::f16::from_f64(value).to_bits().to_ne_bytes()),
            Dtype::Bf16 => out.extend(half::bf16::from_f64(value).to_bits().to_ne_bytes()),
            Dtype::I32 => out.extend((rng.word() as i32).to_ne_bytes()),
            Dtype::I64 => out.extend((rng.word() as i64).to_ne_bytes()),
        }
    }
    out
}

/// Ranks on nodes: every node has one at least, in any order.
pub fn map(rng: &mut Random, nodes: usize, extra: usize) -> Vec<Node> {
    let mut map: Vec<Node> = (0..nodes as Node).collect();
    map.extend((0..rng.index(extra + 1)).map(|_| rng.index(nodes) as Node).collect::<Vec<_>>());
    for i in (1..map.len()).rev() {
        map.swap(i, rng.index(i + 1));
    }
    map
}

impl Problem {
    /// The problem of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Random::new(seed ^ 0x5eed_0001);
        let nodes = pick(&mut rng, &[1, 2, 2, 3, 3, 4, 4, 5]);
        let map = map(&mut rng, nodes, 4);
        let calls: Vec<Call> = (0..1 + rng.index(3)).map(|_| call(&mut rng, map.len())).collect();
        let in_place = rng.index(2) == 0;
        let inputs = calls.iter().map(|call| {
            let bytes = call.input_bytes(map.len()).unwrap_or(0);
            map.iter().map(|_| input(call.dtype, bytes, &mut rng)).collect()
        });
        let inputs = inputs.collect();
        Problem { map, calls, in_place, inputs }
    }

    /// What every rank's output of every call should be.
    #[must_use]
    pub fn outputs(&self) -> Vec<Vec<Vec<u8>>> {
        self.calls.iter().zip(&self.inputs).map(|(call, i)| reference::outputs(call, &self.map, i)).collect()
    }

    /// The regions of a rank's call in its node's memory, with the input filled in, in place if that can be.
    pub fn buffers(&self, net: &mut Net, at: usize, rank: usize) -> (Region, Region) {
        let (call, data) = (&self.calls[at], &self.inputs[at][rank]);
        let memory = &mut net.hosts[usize::from(self.map[rank])].memory;
        let (output, part) = (call.output_bytes(self.map.len()).unwrap_or(0), call.bytes().unwrap_or(0));
        if !self.in_place || matches!(call.operation, Operation::AllToAll | Operation::Barrier) {
            return (memory.insert(data.clone()), memory.insert(vec![0xdd; output]));
        }
        match call.operation {
            Operation::AllGather => {
                let whole = memory.insert(vec![0xdd; output]);
                let input = whole.part(rank * part, part);
                memory.bytes_mut(input).into_iter().for_each(|bytes| bytes.copy_from_slice(data));
                (input, whole)
            }
            Operation::ReduceScatter => {
                let whole = memory.insert(data.clone());
                (whole, whole.part(rank * part, part))
            }
            _ => {
                let whole = memory.insert(data.clone());
                (whole, whole)
            }
        }
    }
}

/// How it is computed: chunks, windows, algorithm, plan.
#[must_use]
pub fn way(rng: &mut Random, map: &[Node], rails: usize, timeout: Time) -> (World, Plan) {
    let tight = rng.index(3) == 0;
    let mut tuning = match tight {
        true => Tuning {
            link_window: Some(300),
            eager_bytes: 128,
            eager_chunks: 2,
            stage_bytes: 1,
            ..Tuning::default()
        },
        false => Tuning::default(),
    };
    if rng.index(3) > 0 {
        tuning.algorithm = Some(pick(rng, Algorithm::ALL));
    }
    let world = World {
        map: map.to_vec(),
        rails,
        chunk: 64 * (1 + rng.index(40)),
        tuning,
        timeout,
        checksum: rng.index(4) == 0,
    };
    let nodes = world.nodes();
    let capacity = match rng.index(3) {
        0 => (0..nodes).map(|_| pick(rng, &[1024, 1024, 768, 512, 0])).collect(),
        _ => Vec::new(),
    };
    (world, Plan { capacity, ..Plan::default() })
}
