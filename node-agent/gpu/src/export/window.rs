//! Which pages of an allocation an export is of. Pure.

use super::ExportError;

/// Whole pages around a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Where the first page begins.
    pub start: u64,
    /// Bytes of all pages.
    pub length: u64,
    /// Where the range begins, from `start`.
    pub offset: u64,
}

/// The pages of `page` bytes (a power of two) that hold `length` bytes from `pointer`, inside the allocation `(base, bytes)`.
/// `cuMemGetHandleForAddressRange` asks for whole pages of the host.
///
/// # Errors
/// The range is empty or leaves its allocation, or its first or last page does.
pub fn window(
    pointer: u64,
    length: u64,
    (base, allocated): (u64, u64),
    page: u64,
) -> Result<Window, ExportError> {
    let outside = || ExportError::Outside { pointer, length, base, allocated };
    let end = pointer.checked_add(length).ok_or_else(outside)?;
    let limit = base.checked_add(allocated).ok_or_else(outside)?;
    if length == 0 || pointer < base || end > limit {
        return Err(outside());
    }
    let start = pointer & !(page - 1);
    let stop = end.checked_next_multiple_of(page).ok_or_else(outside)?;
    if start < base {
        return Err(ExportError::PartPage { beyond: base - start, page });
    }
    if stop > limit {
        return Err(ExportError::PartPage { beyond: stop - limit, page });
    }
    Ok(Window { start, length: stop - start, offset: pointer - start })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: u64 = 0x7f00_0000_0000;

    #[test]
    fn ranges_are_widened_to_pages() {
        let of = |pointer, length| window(BASE + pointer, length, (BASE, 1 << 21), 4096).unwrap();
        assert_eq!(of(0, 1), Window { start: BASE, length: 4096, offset: 0 });
        assert_eq!(of(0x1234, 0x1000), Window { start: BASE + 0x1000, length: 0x2000, offset: 0x234 });
        assert_eq!(of(0, 1 << 21), Window { start: BASE, length: 1 << 21, offset: 0 });
    }

    #[test]
    fn what_is_not_inside_is_refused_by_name() {
        for (pointer, length) in [(BASE, 0), (BASE - 1, 2), (BASE, 4097), (u64::MAX, 2), (BASE + 4096, 1)] {
            let error = window(pointer, length, (BASE, 4096), 4096).unwrap_err();
            assert!(matches!(error, ExportError::Outside { .. }), "{pointer:#x} {length}: {error}");
        }
        let error = window(BASE, 5000, (BASE, 5000), 4096).unwrap_err();
        assert!(matches!(error, ExportError::PartPage { beyond: 3192, page: 4096 }), "{error}");
        let error = window(BASE + 600, 100, (BASE + 512, 8192), 4096).unwrap_err();
        assert!(matches!(error, ExportError::PartPage { beyond: 512, .. }), "{error}");
    }

    proptest! {
        #[test]
        fn a_window_holds_its_range_and_stays_inside(
            pointer: u64, length: u64, base: u64, allocated: u64, shift in 12u32..17
        ) {
            let page = 1 << shift;
            // Some near each other, so that many succeed.
            for (pointer, length) in [(pointer, length), (base.wrapping_add(pointer % (1 << 20)), length % (1 << 20))] {
                let Ok(found) = window(pointer, length, (base, allocated), page) else { continue };
                prop_assert!(found.start % page == 0 && found.length % page == 0 && found.offset < page);
                prop_assert_eq!(found.start + found.offset, pointer);
                prop_assert!(found.offset + length <= found.length);
                prop_assert!(found.start >= base && found.start - base + found.length <= allocated);
            }
        }
    }
}
