//! Every operation computed naively, element by element, from the words of `order`'s documentation.

use half::{bf16, f16};
use node_agent_collective::{Call, Dtype, Operation, ReduceOp};

fn float(op: ReduceOp, a: f64, b: f64, round: impl Fn(f64) -> f64) -> f64 {
    match op {
        ReduceOp::Sum => round(a + b),
        ReduceOp::Prod => round(a * b),
        ReduceOp::Min | ReduceOp::Max if a.is_nan() || b.is_nan() => f64::NAN,
        ReduceOp::Min => {
            if b < a {
                b
            } else {
                a
            }
        }
        ReduceOp::Max => {
            if b > a {
                b
            } else {
                a
            }
        }
    }
}

fn wide(dtype: Dtype, e: &[u8]) -> f32 {
    let bits = u16::from_ne_bytes(e.try_into().unwrap());
    if dtype == Dtype::F16 { f16::from_bits(bits).to_f32() } else { bf16::from_bits(bits).to_f32() }
}

fn narrow(dtype: Dtype, v: f32) -> Vec<u8> {
    let bits = match (dtype, v.is_nan()) {
        (Dtype::F16, true) => 0x7e00,
        (_, true) => 0x7fc0,
        (Dtype::F16, _) => f16::from_f32(v).to_bits(),
        _ => bf16::from_f32(v).to_bits(),
    };
    bits.to_ne_bytes().to_vec()
}

fn f32_op(op: ReduceOp, a: f32, b: f32) -> f32 {
    // A sum or product of two f32 is exact or correctly rounded in f64, and rounding it again to f32 changes nothing.
    let r = float(op, a.into(), b.into(), |r| f64::from(r as f32)) as f32;
    if r.is_nan() { f32::NAN } else { r }
}

fn combine(dtype: Dtype, op: ReduceOp, a: &[u8], b: &[u8]) -> Vec<u8> {
    macro_rules! int {
        ($t:ty) => {{
            let (a, b) =
                (<$t>::from_ne_bytes(a.try_into().unwrap()), <$t>::from_ne_bytes(b.try_into().unwrap()));
            let r = match op {
                ReduceOp::Sum => a.wrapping_add(b),
                ReduceOp::Prod => a.wrapping_mul(b),
                ReduceOp::Min => a.min(b),
                ReduceOp::Max => a.max(b),
            };
            r.to_ne_bytes().to_vec()
        }};
    }
    match dtype {
        Dtype::I32 => int!(i32),
        Dtype::I64 => int!(i64),
        Dtype::F32 => {
            let of = |e: &[u8]| f32::from_ne_bytes(e.try_into().unwrap());
            f32_op(op, of(a), of(b)).to_ne_bytes().to_vec()
        }
        Dtype::F64 => {
            let of = |e: &[u8]| f64::from_ne_bytes(e.try_into().unwrap());
            let r = float(op, of(a), of(b), |r| r);
            (if r.is_nan() { f64::NAN } else { r }).to_ne_bytes().to_vec()
        }
        Dtype::F16 | Dtype::Bf16 => narrow(dtype, f32_op(op, wide(dtype, a), wide(dtype, b))),
    }
}

/// One node's contribution to one element.
fn contribution(dtype: Dtype, op: ReduceOp, ranks: &[&[u8]]) -> Vec<u8> {
    if matches!(dtype, Dtype::F16 | Dtype::Bf16) && ranks.len() > 1 {
        let sum = ranks[1..].iter().fold(wide(dtype, ranks[0]), |acc, r| f32_op(op, acc, wide(dtype, r)));
        return narrow(dtype, sum);
    }
    ranks[1..].iter().fold(ranks[0].to_vec(), |acc, r| combine(dtype, op, &acc, r))
}

/// One element of the result, in the order of a block of node `owner`.
fn element(call: &Call, map: &[u16], nodes: usize, owner: usize, inputs: &[Vec<u8>], at: usize) -> Vec<u8> {
    let size = call.dtype.size();
    let of = |node: usize| {
        let ranks = (0..map.len()).filter(|&r| usize::from(map[r]) == node);
        let values: Vec<&[u8]> = ranks.map(|r| &inputs[r][at..at + size]).collect();
        contribution(call.dtype, call.reduce, &values)
    };
    let order: Vec<usize> = (1..=nodes).map(|i| (owner + i) % nodes).collect();
    order[1..].iter().fold(of(order[0]), |acc, &n| combine(call.dtype, call.reduce, &acc, &of(n)))
}

/// The outputs of all ranks, from the inputs of all ranks. `map[r]` is the node of rank r.
pub fn outputs(call: &Call, map: &[u16], inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (world, size) = (map.len(), call.dtype.size());
    let nodes = usize::from(*map.iter().max().unwrap()) + 1;
    let bytes = call.bytes().unwrap();
    match call.operation {
        Operation::AllReduce => {
            let owner = |at: usize| {
                let units = bytes.div_ceil(64);
                (0..nodes).rfind(|b| units * b / nodes * 64 <= at).unwrap()
            };
            let result: Vec<u8> = (0..bytes)
                .step_by(size)
                .flat_map(|at| element(call, map, nodes, owner(at), inputs, at))
                .collect();
            vec![result; world]
        }
        Operation::ReduceScatter => (0..world)
            .map(|rank| {
                let part = rank * bytes..(rank + 1) * bytes;
                part.step_by(size)
                    .flat_map(|at| element(call, map, nodes, map[rank].into(), inputs, at))
                    .collect()
            })
            .collect(),
        Operation::AllGather => vec![inputs.concat(); world],
        Operation::Broadcast { root } => vec![inputs[root as usize].clone(); world],
        Operation::AllToAll => (0..world)
            .map(|to| inputs.iter().flat_map(|i| i[to * bytes..(to + 1) * bytes].to_vec()).collect())
            .collect(),
        Operation::Barrier | Operation::Send { .. } | Operation::Recv { .. } => vec![Vec::new(); world],
    }
}
