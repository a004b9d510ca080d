//! `ncclTunerPlugin_v3` to `ncclTunerPlugin_v6`, written from the facts of NCCL's interface for tuners.
#![allow(non_upper_case_globals, reason = "NCCL looks for these names")]

use std::ffi::{c_int, c_void};

use super::entry::{Kind, name, number, put};
use super::log::Logger;
use super::types::{LogFunction, Out, Text};
use super::versions::NAME;
use crate::error::{Code, NetError};
use crate::process::attempt;
use crate::tuner;

/// NCCL's table of costs is of so many algorithms and protocols at most.
const MOST_COSTS: usize = 1024;

type InitV3 = unsafe extern "C" fn(usize, usize, Option<LogFunction>, Out) -> c_int;
type InitV5 =
    unsafe extern "C" fn(Out, u64, usize, usize, Option<LogFunction>, *mut c_void, *mut c_void) -> c_int;
type End = unsafe extern "C" fn(*mut c_void) -> c_int;
type ChooseV3 =
    unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, *mut *mut f32, c_int, c_int, *mut c_int) -> c_int;
type ChooseV4 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    usize,
    c_int,
    *mut *mut f32,
    c_int,
    c_int,
    c_int,
    *mut c_int,
) -> c_int;
type ChunkSize = unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, c_int, *mut usize) -> c_int;

macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(C)]
        pub struct $name {
            /// The tuner's name, for logs.
            pub name: Text,
            $(
                /// The entry of this name in NCCL's interface.
                pub $field: Option<$type>,
            )*
        }
    };
}

table! {
    /// The tuner's table, v3.
    TunerV3 { init: InitV3, get_coll_info: ChooseV3, finalize: End }
}
table! {
    /// The tuner's table, v4.
    TunerV4 { init: InitV3, get_coll_info: ChooseV4, finalize: End }
}
table! {
    /// The tuner's table, v5.
    TunerV5 { init: InitV5, get_coll_info: ChooseV4, finalize: End }
}
table! {
    /// The tuner's table, v6.
    TunerV6 { init: InitV5, get_coll_info: ChooseV4, finalize: End, get_chunk_size: ChunkSize }
}

/// NCCL's interface for tuners, version 3.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v3: TunerV3 =
    TunerV3 { name: NAME, init: Some(init_v3), get_coll_info: Some(choose_v3), finalize: Some(finalize) };
/// NCCL's interface for tuners, version 4.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v4: TunerV4 =
    TunerV4 { name: NAME, init: Some(init_v3), get_coll_info: Some(choose_v4), finalize: Some(finalize) };
/// NCCL's interface for tuners, version 5.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v5: TunerV5 =
    TunerV5 { name: NAME, init: Some(init_v5), get_coll_info: Some(choose_v4), finalize: Some(finalize) };
/// NCCL's interface for tuners, version 6.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v6: TunerV6 = TunerV6 {
    name: NAME,
    init: Some(init_v5),
    get_coll_info: Some(choose_v4),
    finalize: Some(finalize),
    // NCCL's own size of chunks suits: the engine cuts messages by itself.
    get_chunk_size: None,
};

/// # Safety
/// `log` is NULL or NCCL's log function, `context` NULL (an error) or may be written.
unsafe fn init(
    context: Out,
    id: Option<u64>,
    (ranks, nodes): (usize, usize),
    log: Option<LogFunction>,
) -> c_int {
    // SAFETY: passed on to the caller.
    let logger = unsafe { Logger::new(log) };
    attempt("tuner init", Some(logger), || {
        // SAFETY: passed on to the caller.
        unsafe { put(context, std::ptr::null_mut()) }?;
        let made = tuner::begin(id, ranks as u64, nodes, logger)?;
        // SAFETY: passed on to the caller.
        unsafe { put(context, name(Kind::Tuner, made)) }
    })
}

/// # Safety
/// As for [`init`].
unsafe extern "C" fn init_v3(ranks: usize, nodes: usize, log: Option<LogFunction>, context: Out) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { init(context, None, (ranks, nodes), log) }
}

/// # Safety
/// As for [`init`].
unsafe extern "C" fn init_v5(
    context: Out,
    id: u64,
    ranks: usize,
    nodes: usize,
    log: Option<LogFunction>,
    _domains: *mut c_void,
    _constants: *mut c_void,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { init(context, Some(id), (ranks, nodes), log) }
}

/// # Safety
/// None beyond its type.
unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    attempt("tuner finalize", None, || {
        tuner::end(communicator(context)?);
        Ok(())
    })
}

fn communicator(context: *mut c_void) -> Result<u64, NetError> {
    let misuse =
        || NetError::new(Code::Internal, format!("{:#x} is no communicator's tuner", context.addr()));
    number(Kind::Tuner, context).ok_or_else(misuse)
}

/// # Safety
/// `costs` is NULL or has `algorithms` times `protocols` numbers that nobody else uses meanwhile.
unsafe fn choose(
    context: *mut c_void,
    (collective, bytes): (c_int, usize),
    costs: *mut *mut f32,
    (algorithms, protocols): (c_int, c_int),
) -> c_int {
    attempt("getCollInfo", None, || {
        let size = |number: c_int| usize::try_from(number).ok().filter(|size| *size <= MOST_COSTS);
        let shape = size(algorithms).zip(size(protocols));
        let (algorithms, protocols) = shape.filter(|(a, p)| a * p <= MOST_COSTS).ok_or_else(|| {
            let text = format!("a table of {algorithms} algorithms and {protocols} protocols");
            NetError::new(Code::Internal, text)
        })?;
        let table: &mut [f32] = match costs.is_null() {
            true => &mut [],
            // SAFETY: not null, and the caller vouches for as many numbers, which NCCL has on its stack in one piece; their size was checked.
            false => unsafe { std::slice::from_raw_parts_mut(costs.cast::<f32>(), algorithms * protocols) },
        };
        tuner::choose(communicator(context)?, collective, bytes as u64, table, protocols)
    })
}

/// # Safety
/// As for [`choose`].
unsafe extern "C" fn choose_v3(
    context: *mut c_void,
    collective: c_int,
    bytes: usize,
    _pipelined: c_int,
    costs: *mut *mut f32,
    algorithms: c_int,
    protocols: c_int,
    _channels: *mut c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { choose(context, (collective, bytes), costs, (algorithms, protocols)) }
}

/// # Safety
/// As for [`choose`].
unsafe extern "C" fn choose_v4(
    context: *mut c_void,
    collective: c_int,
    bytes: usize,
    _pipelined: c_int,
    costs: *mut *mut f32,
    algorithms: c_int,
    protocols: c_int,
    _registered: c_int,
    _channels: *mut c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { choose(context, (collective, bytes), costs, (algorithms, protocols)) }
}
