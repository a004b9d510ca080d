//! The order in which people count: leaf-2 before leaf-10.

use std::cmp::Ordering;

/// Compares texts with runs of digits as numbers; equal ones by their bytes.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    loop {
        match (x.first(), y.first()) {
            (Some(p), Some(q)) if p.is_ascii_digit() && q.is_ascii_digit() => {
                let (p, q) = (number(&mut x), number(&mut y));
                let order = p.len().cmp(&q.len()).then_with(|| p.cmp(q));
                if order != Ordering::Equal {
                    return order;
                }
            }
            (Some(p), Some(q)) if p == q => (x, y) = (&x[1..], &y[1..]),
            (Some(p), Some(q)) => return p.cmp(q),
            (p, q) => return p.is_some().cmp(&q.is_some()).then_with(|| a.cmp(b)),
        }
    }
}

/// Takes the digits off the front; without leading zeros.
fn number<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let zeros = digits.iter().take_while(|c| **c == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_count_so() {
        let mut names = ["leaf-10", "leaf-2", "leaf-02", "leaf", "B10-Leaf-1", "B2-Leaf-30", "leaf-2a"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ["B2-Leaf-30", "B10-Leaf-1", "leaf", "leaf-02", "leaf-2", "leaf-2a", "leaf-10"]);
    }
}
