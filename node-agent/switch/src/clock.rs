//! The switch's clock: which start of it this is, and how long ago that was.

use rustix::time::{ClockId, clock_gettime};

use crate::decide::Moment;

/// Where the kernel says which start this is.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The clock that this returns goes on while the switch sleeps, and cannot be set.
#[must_use]
pub fn real() -> Box<dyn Fn() -> Moment + Send> {
    let boot = std::fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned();
    Box::new(move || {
        let now = clock_gettime(ClockId::Boottime);
        let ms = now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000);
        Moment { boot: boot.clone(), ms: u64::try_from(ms).unwrap_or(0) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on() {
        let clock = real();
        let first = clock();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = clock();
        assert!(!first.boot.is_empty() && first.boot == second.boot);
        assert!((15..5_000).contains(&(second.ms - first.ms)), "{first:?} {second:?}");
    }
}
