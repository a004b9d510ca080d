//! The kernel's structures and those of `node-agent-qos`, both ways.

use node_agent_netlink::{
    Errno, NetlinkError,
    dcb::{App, Buffer as KernelBuffer, Ets as KernelEts, Pfc as KernelPfc},
    ethtool::Pause as KernelPause,
    private::StormLimit,
};
use node_agent_qos::{
    Reading,
    settings::{AppEntry, Buffer, Ets, Pause, Pfc},
    words::{PrioritySet, Tsa},
};

/// What became of reading something: what the kernel does not have is not supported, any other failure is reported.
pub(super) fn reading<T>(result: Result<T, NetlinkError>) -> Reading<T> {
    match result {
        Ok(value) => Reading::Known(value),
        Err(error) if matches!(error.errno(), Some(Errno::OPNOTSUPP | Errno::NOENT)) => Reading::Unsupported,
        Err(error) => Reading::Unreadable(error.to_string()),
    }
}

/// The same reading of a part of what was read.
pub(super) fn part<T, U>(whole: &Reading<T>, take: impl FnOnce(&T) -> Option<U>) -> Reading<U> {
    match whole {
        Reading::Known(value) => take(value).map_or(Reading::Unsupported, Reading::Known),
        Reading::Unsupported => Reading::Unsupported,
        Reading::Unreadable(why) => Reading::Unreadable(why.clone()),
    }
}

pub(super) fn entry(app: &App) -> AppEntry {
    AppEntry { selector: app.selector, protocol: app.protocol, priority: app.priority }
}

pub(super) fn app(entry: &AppEntry) -> App {
    App { selector: entry.selector, protocol: entry.protocol, priority: entry.priority }
}

pub(super) fn pfc(kernel: &KernelPfc) -> Pfc {
    Pfc { enabled: PrioritySet(kernel.enabled), delay: kernel.delay }
}

/// `ets`, and what is not in it as the kernel has it.
pub(super) fn ets_over(kernel: KernelEts, ets: &Ets) -> KernelEts {
    KernelEts {
        willing: ets.willing.into(),
        tx_percent: ets.bandwidth,
        // Receiving is served alike: `dcb` and mlnx_qos leave it, drivers ignore it.
        tsa: ets.tsa.map(u8::from),
        class_of: ets.prio_tc,
        ..kernel
    }
}

pub(super) fn ets(kernel: &KernelEts) -> Ets {
    Ets {
        willing: kernel.willing != 0,
        tsa: kernel.tsa.map(Tsa::from),
        bandwidth: kernel.tx_percent,
        prio_tc: kernel.class_of,
    }
}

pub(super) fn buffer(kernel: &KernelBuffer) -> Buffer {
    Buffer { prio_buffer: kernel.buffer_of, size: kernel.size }
}

pub(super) fn buffer_over(kernel: KernelBuffer, buffer: &Buffer) -> KernelBuffer {
    KernelBuffer { buffer_of: buffer.prio_buffer, size: buffer.size, ..kernel }
}

pub(super) fn pause(kernel: &KernelPause) -> Pause {
    Pause { autoneg: kernel.negotiate, rx: kernel.rx, tx: kernel.tx }
}

pub(super) fn kernel_pause(pause: Pause) -> KernelPause {
    KernelPause { negotiate: pause.autoneg, rx: pause.rx, tx: pause.tx, ..KernelPause::default() }
}

pub(super) fn millis(limit: StormLimit) -> u16 {
    limit.encode()
}
