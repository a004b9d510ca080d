//! Rust types whose slices can be operands.

use node_agent_collective::Dtype;

/// A type that collectives understand, with its bytes in this machine's order, as buffers hold them. No other type may
/// implement it: the engine knows these only.
pub trait Element: Copy + sealed::Sealed {
    /// The type's name in calls.
    const DTYPE: Dtype;

    /// Copies `values` into `bytes`, which is exactly as long.
    fn store(values: &[Self], bytes: &mut [u8]);

    /// Copies `bytes` into `values`, which is exactly as long.
    fn load(bytes: &[u8], values: &mut [Self]);

    /// The bytes of `values`.
    fn bytes(values: &[Self]) -> &[u8];

    /// The bytes of `values`, to be written.
    fn bytes_mut(values: &mut [Self]) -> &mut [u8];
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($($type:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $type {}

        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn store(values: &[Self], bytes: &mut [u8]) {
                for (value, room) in values.iter().zip(bytes.chunks_exact_mut(size_of::<Self>())) {
                    room.copy_from_slice(&value.to_ne_bytes());
                }
            }

            fn load(bytes: &[u8], values: &mut [Self]) {
                let mut whole = [0; size_of::<Self>()];
                for (room, value) in bytes.chunks_exact(size_of::<Self>()).zip(values) {
                    whole.copy_from_slice(room);
                    *value = Self::from_ne_bytes(whole);
                }
            }

            fn bytes(values: &[Self]) -> &[u8] {
                // SAFETY: a number without padding, so all of its bytes are initialised; the length is that of the slice in
                // bytes, bytes need no alignment, and the borrow goes on.
                unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
            }

            fn bytes_mut(values: &mut [Self]) -> &mut [u8] {
                // SAFETY: as above; every bit pattern is a value of the type, so any bytes may be written.
                unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
            }
        }
    )*};
}

element! { f32 => F32, f64 => F64, i32 => I32, i64 => I64, half::f16 => F16, half::bf16 => Bf16 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_their_bytes_are_the_same_memory() {
        let mut values = [1.5_f32, -2.0];
        let mut copy = [0; 8];
        f32::store(&values, &mut copy);
        assert_eq!(f32::bytes(&values), copy);
        f32::bytes_mut(&mut values)[..4].copy_from_slice(&7.0_f32.to_ne_bytes());
        assert_eq!(values, [7.0, -2.0]);
        assert!(i64::bytes(&[]).is_empty());
    }
}
