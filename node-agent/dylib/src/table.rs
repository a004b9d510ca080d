//! Tables of functions.

/// Declares a table of functions of a library: a struct whose fields are function pointers, and `find`, which fills it. Those after
/// `maybe` are options, for what older versions lack.
///
/// `find` is unsafe: who calls it vouches that each symbol has the signature that the table gives it, in every version of the library,
/// and keeps the library loaded as long as the table is used.
#[macro_export]
macro_rules! functions {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident { $($field:ident: $kind:ty = $symbol:literal,)* }
        $(maybe { $($maybe:ident: $maybe_kind:ty = $maybe_symbol:literal,)* })?
    ) => {
        $(#[$about])*
        $visible struct $name {
            $($visible $field: $kind,)*
            $($($visible $maybe: Option<$maybe_kind>,)*)?
        }

        impl $name {
            /// Finds them.
            ///
            /// # Safety
            /// Each symbol has this signature, and the library outlives the table.
            unsafe fn find(library: &$crate::Loaded) -> Result<Self, $crate::LoadError> {
                Ok(Self {
                    $($field: {
                        let symbol: &'static str = $symbol;
                        // SAFETY: passed on to the caller.
                        let found: $kind = unsafe { library.find(symbol) }?;
                        found
                    },)*
                    $($($maybe: {
                        let symbol: &'static str = $maybe_symbol;
                        // SAFETY: passed on to the caller.
                        let found: Option<$maybe_kind> = unsafe { library.maybe(symbol) };
                        found
                    },)*)?
                })
            }
        }
    };
}
