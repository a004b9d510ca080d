//! The collective core's arithmetic, compiled for what the processor at hand can do.

use node_agent_collective::{Dtype, ReduceOp, fold as plain};

/// As [`node_agent_collective::fold::fold`], to the bit: wider vectors change how many elements are done at once, not how one is done.
pub fn fold(dtype: Dtype, op: ReduceOp, acc: &mut [u8], src: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { fold_avx2(dtype, op, acc, src) };
    }
    plain::fold(dtype, op, acc, src);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
fn fold_avx2(dtype: Dtype, op: ReduceOp, acc: &mut [u8], src: &[u8]) {
    plain::fold(dtype, op, acc, src);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random bits, so all kinds of values, in every type and reduction.
    #[test]
    fn wide_vectors_give_the_same_bits() {
        let mut seed = 0x5eed_u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 56) as u8
        };
        for &dtype in Dtype::ALL {
            for &op in ReduceOp::ALL {
                let len = if cfg!(miri) { 64 } else { 8 * 1031 };
                let src: Vec<u8> = (0..len).map(|_| random()).collect();
                let mut one: Vec<u8> = (0..len).map(|_| random()).collect();
                let mut two = one.clone();
                plain::fold(dtype, op, &mut one, &src);
                fold(dtype, op, &mut two, &src);
                assert_eq!(one, two, "{dtype} {op}");
            }
        }
    }
}
