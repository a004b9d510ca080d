//! What a rank asks for: the operation, the element type, the reduction and the element count.

use std::fmt;
use std::str::FromStr;

use crate::units::Rank;

/// A name that is none of the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no {what}; known: {known}")]
pub struct UnknownName {
    /// What was to be named: operation, dtype or reduction.
    pub what: &'static str,
    /// The text that was given.
    pub given: String,
    /// The known names, separated by a comma and a space.
    pub known: String,
}

/// Makes a field-less enum with its names, `ALL`, `FromStr`, `Display` and its code on the wire.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident, $what:literal: $($(#[$vdoc:meta])* $variant:ident = $code:literal $name:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($(#[$vdoc])* $variant = $code),+ }

        impl $type {
            /// Every value, in the order of the codes.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];

            /// The name as commands and files write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }

            /// The code in a frame header.
            #[must_use]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The value of a code, if there is one.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some($type::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|v| v.name() == text).ok_or_else(|| UnknownName {
                    what: $what,
                    given: text.to_owned(),
                    known: [$($name),+].join(", "),
                })
            }
        }
    };
}

pub(crate) use names;

names! {
    /// Element type of a buffer, in the machine's own byte order (little-endian on every supported machine).
    Dtype, "dtype":
    /// A 32-bit floating-point number (IEEE 754).
    F32 = 1 "f32",
    /// A 64-bit floating-point number (IEEE 754).
    F64 = 2 "f64",
    /// A signed 32-bit integer (two's complement).
    I32 = 3 "i32",
    /// A signed 64-bit integer (two's complement).
    I64 = 4 "i64",
    /// 16-bit IEEE 754 (5 exponent bits); computed in f32.
    F16 = 5 "f16",
    /// 16-bit brain float (8 exponent bits); computed in f32.
    Bf16 = 6 "bf16",
}

names! {
    /// How elements of several ranks become one. Exact semantics: [`crate::order`].
    ReduceOp, "reduction":
    /// The sum of all inputs; integers wrap.
    Sum = 1 "sum",
    /// Least; a NaN in any input gives NaN.
    Min = 2 "min",
    /// Greatest; a NaN in any input gives NaN.
    Max = 3 "max",
    /// The product of all inputs; integers wrap.
    Prod = 4 "prod",
}

names! {
    /// The name of an operation without its arguments.
    OpKind, "operation":
    /// Every rank ends with the reduction of all inputs.
    AllReduce = 1 "all-reduce",
    /// Every rank ends with all inputs, in rank order.
    AllGather = 2 "all-gather",
    /// Rank r ends with the r-th part of the reduction.
    ReduceScatter = 3 "reduce-scatter",
    /// Every rank ends with the root's input.
    Broadcast = 4 "broadcast",
    /// Part d of rank s's input becomes part s of rank d's output.
    AllToAll = 5 "all-to-all",
    /// Nobody goes on before everybody came.
    Barrier = 6 "barrier",
    /// One rank's input goes to one rank.
    Send = 7 "send",
    /// The counterpart of send.
    Recv = 8 "recv",
}

impl Dtype {
    /// Size of one element in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F64 | Dtype::I64 => 8,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }
}

/// An operation with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Every rank gets the reduction of all inputs; see [`OpKind::AllReduce`].
    AllReduce,
    /// Every rank gets the inputs of all ranks; see [`OpKind::AllGather`].
    AllGather,
    /// Every rank gets its block of the reduction of all inputs; see [`OpKind::ReduceScatter`].
    ReduceScatter,
    /// Every rank gets the input of the root; see [`OpKind::Broadcast`].
    Broadcast {
        /// The rank whose input everybody gets.
        root: Rank,
    },
    /// Every rank gets its block of the input of each rank; see [`OpKind::AllToAll`].
    AllToAll,
    /// No rank goes on before all have made the call; see [`OpKind::Barrier`].
    Barrier,
    /// See [`OpKind::Send`]. Sends and receives of one (from, to, tag) pair up in the order of their posts.
    Send {
        /// The rank that receives.
        to: Rank,
        /// Tells streams between the same two ranks apart.
        tag: u32,
    },
    /// The other half of [`Operation::Send`]; see [`OpKind::Recv`].
    Recv {
        /// The rank that sends.
        from: Rank,
        /// The tag that the sender uses.
        tag: u32,
    },
}

impl Operation {
    /// The kind of the operation, without its arguments.
    #[must_use]
    pub const fn kind(self) -> OpKind {
        match self {
            Operation::AllReduce => OpKind::AllReduce,
            Operation::AllGather => OpKind::AllGather,
            Operation::ReduceScatter => OpKind::ReduceScatter,
            Operation::Broadcast { .. } => OpKind::Broadcast,
            Operation::AllToAll => OpKind::AllToAll,
            Operation::Barrier => OpKind::Barrier,
            Operation::Send { .. } => OpKind::Send,
            Operation::Recv { .. } => OpKind::Recv,
        }
    }

    /// Whether every rank takes part.
    #[must_use]
    pub const fn is_collective(self) -> bool {
        !matches!(self, Operation::Send { .. } | Operation::Recv { .. })
    }

    /// Whether elements are combined.
    #[must_use]
    pub const fn reduces(self) -> bool {
        matches!(self, Operation::AllReduce | Operation::ReduceScatter)
    }
}

/// One rank's call. All ranks of a collective must make equal calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The operation with its arguments.
    pub operation: Operation,
    /// Element type; [`Operation::Barrier`] ignores it.
    pub dtype: Dtype,
    /// The reduction; only all-reduce and reduce-scatter look at it.
    pub reduce: ReduceOp,
    /// Elements: of the whole buffer for all-reduce, broadcast, send and recv; that each rank contributes for
    /// all-gather; that each rank receives for reduce-scatter; for each pair of ranks for all-to-all.
    pub count: u64,
}

impl Call {
    /// A barrier: no rank goes on before all have made this call.
    pub const BARRIER: Call =
        Call { operation: Operation::Barrier, dtype: Dtype::F32, reduce: ReduceOp::Sum, count: 0 };

    /// Bytes that a rank's input must have in a world of `world` ranks; `None` if that overflows.
    #[must_use]
    pub fn input_bytes(&self, world: usize) -> Option<usize> {
        match self.operation {
            Operation::Barrier | Operation::Recv { .. } => Some(0),
            Operation::ReduceScatter | Operation::AllToAll => self.bytes()?.checked_mul(world),
            _ => self.bytes(),
        }
    }

    /// Bytes that a rank's output must have in a world of `world` ranks; `None` if that overflows.
    #[must_use]
    pub fn output_bytes(&self, world: usize) -> Option<usize> {
        match self.operation {
            Operation::Barrier | Operation::Send { .. } => Some(0),
            Operation::AllGather | Operation::AllToAll => self.bytes()?.checked_mul(world),
            _ => self.bytes(),
        }
    }

    /// Bytes of `count` elements; `None` if that overflows.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        usize::try_from(self.count).ok()?.checked_mul(self.dtype.size())
    }

    /// The same call with every field that its operation ignores set to one fixed value, so that equal meaning is
    /// equal value.
    #[must_use]
    pub fn canonical(self) -> Call {
        match self.operation {
            Operation::Barrier => Call::BARRIER,
            op if op.reduces() => self,
            _ => Call { reduce: ReduceOp::Sum, ..self },
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.operation.kind();
        match self.operation {
            Operation::Barrier => return write!(f, "{kind}"),
            Operation::AllReduce | Operation::ReduceScatter => write!(f, "{kind} {}", self.reduce)?,
            Operation::Broadcast { root } => write!(f, "{kind} from rank {root}")?,
            Operation::Send { to, tag } => write!(f, "{kind} to rank {to} tag {tag}")?,
            Operation::Recv { from, tag } => write!(f, "{kind} from rank {from} tag {tag}")?,
            _ => write!(f, "{kind}")?,
        }
        write!(f, " of {} x {}", self.count, self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for &d in Dtype::ALL {
            assert_eq!(d.to_string().parse(), Ok(d));
            assert_eq!(Dtype::from_code(d.code()), Some(d));
        }
        for &r in ReduceOp::ALL {
            assert_eq!(r.to_string().parse(), Ok(r));
            assert_eq!(ReduceOp::from_code(r.code()), Some(r));
        }
        for &k in OpKind::ALL {
            assert_eq!(k.to_string().parse(), Ok(k));
            assert_eq!(OpKind::from_code(k.code()), Some(k));
        }
        let err = "all_reduce".parse::<OpKind>().unwrap_err().to_string();
        assert!(err.starts_with("`all_reduce` is no operation; known: all-reduce, all-gather"), "{err}");
    }

    #[test]
    fn sizes_follow_the_operation() {
        let call = |operation| Call { operation, dtype: Dtype::F64, reduce: ReduceOp::Sum, count: 3 };
        let both =
            |operation| (call(operation).input_bytes(4).unwrap(), call(operation).output_bytes(4).unwrap());
        assert_eq!(both(Operation::AllReduce), (24, 24));
        assert_eq!(both(Operation::AllGather), (24, 96));
        assert_eq!(both(Operation::ReduceScatter), (96, 24));
        assert_eq!(both(Operation::AllToAll), (96, 96));
        assert_eq!(both(Operation::Send { to: 1, tag: 0 }), (24, 0));
        assert_eq!(both(Operation::Recv { from: 1, tag: 0 }), (0, 24));
        assert_eq!(both(Operation::Barrier), (0, 0));
        let huge = Call { count: u64::MAX, ..call(Operation::AllReduce) };
        assert_eq!(huge.input_bytes(4), None);
    }
}
