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
        }
    )*};
}

element! { f32 => F32, f64 => F64, i32 => I32, i64 => I64, half::f16 => F16, half::bf16 => Bf16 }
