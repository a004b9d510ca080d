//! Layouts of all versions: as this library has them, as a C compiler measures them on our own words, and on NCCL's where its headers are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use rail_nccl_net::abi::{
    CollEvent, CollEventV1, CollEventV2, CollEventV3, CommConfig, DeviceHandle, EventV1, EventV2, EventV3,
    EventV4, EventV5, NetAttributes, NetV8, NetV9, NetV10, NetV11, NetV12, OperationProgress, P2pEvent,
    P2pEventV1, P2pEventV2, Payload, ProfilerV1, ProfilerV2, ProfilerV3, ProfilerV4, ProfilerV5,
    PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12, ProxyOpEvent, StepProgress, TunerV3, TunerV4,
    TunerV5, TunerV6, VirtualDevice4, VirtualDevice8,
};

macro_rules! measure {
    ($out:ident, $type:ty as $name:literal: $($label:literal $field:ident),*) => {
        writeln!($out, "size {} {}", $name, size_of::<$type>()).unwrap();
        $(writeln!($out, "at {} {} {}", $name, $label, offset_of!($type, $field)).unwrap();)*
    };
}

macro_rules! properties {
    ($out:ident, $type:ty as $name:literal: $($label:literal $field:ident),*) => {
        measure!($out, $type as $name: "name" name, "path" pci_path, "guid" guid, "pointers" pointer_support,
            "global" registration_is_global, "speed" speed, "port" port, "latency" latency, "comms" max_comms,
            "receives" max_receives, "kind" device_kind, "version" device_version $(, $label $field)*);
    };
}

macro_rules! table {
    ($out:ident, $type:ty as $name:literal: $($label:literal $field:ident),*) => {
        measure!($out, $type as $name: "name" name, "init" init, "devices" devices, "properties" get_properties,
            "listen" listen, "connect" connect, "accept" accept, "reg" reg_mr, "reg_dma" reg_mr_dma_buf, "dereg" dereg_mr,
            "isend" isend, "irecv" irecv, "flush" iflush, "test" test, "close_send" close_send, "close_recv" close_recv,
            "close_listen" close_listen, "device_mr" get_device_mr, "consumed" irecv_consumed $(, $label $field)*);
    };
}

fn ours() -> String {
    let mut out = String::new();
    properties!(out, PropertiesV8 as "props8":);
    for name in ["props9", "props10"] {
        let mut same = String::new();
        properties!(same, PropertiesV9 as "props9": "flush" force_flush, "virtual" virtual_device, "p2p" max_p2p_bytes,
            "coll" max_coll_bytes);
        out += &same.replace("props9", name);
    }
    properties!(out, PropertiesV11 as "props11": "flush" force_flush, "virtual" virtual_device, "p2p" max_p2p_bytes,
        "coll" max_coll_bytes, "multi" max_multi_request);
    properties!(out, PropertiesV12 as "props12": "flush" force_flush, "virtual" virtual_device, "p2p" max_p2p_bytes,
        "coll" max_coll_bytes, "multi" max_multi_request, "rail" rail, "plane" plane);
    table!(out, NetV8 as "net8":);
    table!(out, NetV9 as "net9": "make" make_virtual_device);
    table!(out, NetV10 as "net10": "make" make_virtual_device);
    table!(out, NetV11 as "net11": "make" make_virtual_device, "finalize" finalize, "attr" set_net_attr);
    table!(out, NetV12 as "net12": "make" make_virtual_device, "finalize" finalize, "attr" set_net_attr);
    measure!(out, VirtualDevice4 as "device4":);
    measure!(out, VirtualDevice8 as "device8":);
    measure!(out, CommConfig as "config":);
    measure!(out, NetAttributes as "attributes":);
    measure!(out, DeviceHandle as "offload":);
    out
}

fn tuners() -> String {
    let mut out = String::new();
    macro_rules! tuner {
        ($type:ty as $name:literal: $($label:literal $field:ident),*) => {
            measure!(out, $type as $name: "name" name, "init" init, "choose" get_coll_info, "end" finalize $(, $label $field)*);
        };
    }
    tuner!(TunerV3 as "tuner3":);
    tuner!(TunerV4 as "tuner4":);
    tuner!(TunerV5 as "tuner5":);
    tuner!(TunerV6 as "tuner6": "chunk" get_chunk_size);
    out
}

fn profilers() -> String {
    let mut out = String::new();
    macro_rules! event {
        ($type:ty as $name:literal, $coll:ty { $($coll_label:literal $($coll_field:ident).+),* }, $p2p:ty { $($p2p_label:literal $($p2p_field:ident).+),* }) => {
            let payload = offset_of!($type, payload);
            for (label, at) in [
                ("parent", offset_of!($type, parent)),
                ("rank", offset_of!($type, rank)),
                $((concat!("coll.", $coll_label), payload + offset_of!($coll, $($coll_field).+)),)*
                $((concat!("p2p.", $p2p_label), payload + offset_of!($p2p, $($p2p_field).+)),)*
                ("op.pid", payload + offset_of!(ProxyOpEvent, pid)),
                ("op.channel", payload + offset_of!(ProxyOpEvent, channel)),
                ("op.peer", payload + offset_of!(ProxyOpEvent, peer)),
                ("op.sends", payload + offset_of!(ProxyOpEvent, sends)),
                ("step", payload + offset_of!(Payload, proxy_step)),
            ] {
                writeln!(out, "at {} {label} {at}", $name).unwrap();
            }
        };
    }
    event!(EventV1 as "event1",
        CollEventV1 { "sequence" sequence, "function" function, "count" count, "algorithm" algorithm, "protocol" protocol, "hash" hash },
        P2pEventV1 { "function" function, "count" count, "peer" peer, "hash" hash });
    event!(EventV2 as "event2",
        CollEventV2 { "sequence" sequence, "function" function, "count" count, "algorithm" algorithm, "protocol" protocol, "hash" hash },
        P2pEventV2 { "function" p2p.function, "count" p2p.count, "peer" p2p.peer, "hash" hash });
    event!(EventV3 as "event3",
        CollEventV3 { "sequence" coll.sequence, "function" coll.function, "count" coll.count, "algorithm" coll.algorithm,
            "protocol" coll.protocol, "hash" hash },
        P2pEventV2 { "function" p2p.function, "count" p2p.count, "peer" p2p.peer, "hash" hash });
    macro_rules! newer {
        ($type:ty as $name:literal) => {
            event!($type as $name,
                CollEvent { "sequence" sequence, "function" function, "count" count, "algorithm" algorithm, "protocol" protocol },
                P2pEvent { "function" function, "count" count, "peer" peer });
        };
    }
    newer!(EventV4 as "event4");
    newer!(EventV5 as "event5");
    newer!(EventV5 as "event6");
    for version in 1..=3 {
        writeln!(out, "at state{version} bytes {}", offset_of!(OperationProgress, bytes)).unwrap();
        writeln!(out, "at state{version} steps {}", offset_of!(OperationProgress, steps)).unwrap();
        writeln!(out, "bytes state{version} {}", size_of::<usize>()).unwrap();
    }
    for version in 4..=6 {
        writeln!(out, "at state{version} bytes 0").unwrap();
        writeln!(out, "bytes state{version} {}", size_of::<StepProgress>()).unwrap();
    }
    macro_rules! profiler {
        ($type:ty as $name:literal) => {
            measure!(out, $type as $name: "name" name, "init" init, "start" start_event, "stop" stop_event, "record" record_event_state,
                "end" finalize);
        };
    }
    profiler!(ProfilerV1 as "table1");
    profiler!(ProfilerV2 as "table2");
    profiler!(ProfilerV3 as "table3");
    profiler!(ProfilerV4 as "table4");
    profiler!(ProfilerV5 as "table5");
    profiler!(ProfilerV5 as "table6");
    out
}

fn lines(text: &str) -> BTreeMap<String, usize> {
    let line = |line: &str| {
        let (name, number) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), number.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// What a C compiler measures, with these arguments; `None` where there is no compiler.
fn measured(source: &str, room: &Path, arguments: &[String]) -> Option<BTreeMap<String, usize>> {
    let (source, program) =
        (PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/abi").join(source), room.join("sizes"));
    let mut command = Command::new("gcc");
    command.args(["-std=gnu11", "-Wall", "-Werror"]).args(arguments).arg(source).arg("-o").arg(&program);
    let output = match command.output() {
        Ok(output) => output,
        Err(_) => {
            println!("skipped: no gcc");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success());
    Some(lines(&String::from_utf8(output.stdout).unwrap()))
}

#[test]
fn a_c_compiler_agrees_on_every_size_and_offset() {
    let room = tempfile::tempdir().unwrap();
    let Some(found) = measured("sizes.c", room.path(), &[]) else { return };
    assert_eq!(lines(&ours()), found);
    assert!(found.len() > 180, "{}", found.len());
    // Known from outside, too.
    assert_eq!((found["size net12"], found["size props12"], found["at props12 rail"]), (176, 128, 124));
    assert_eq!(Some(lines(&tuners())), measured("tuner.c", room.path(), &[]));
    assert_eq!(Some(lines(&profilers())), measured("profiler.c", room.path(), &[]));
}

/// `RAIL_TEST_NCCL` is the folder `plugins/net/example/nccl` of NCCL's sources.
#[test]
fn the_headers_of_nccl_agree_where_they_are() {
    let Some(folder) = std::env::var_os("RAIL_TEST_NCCL") else {
        println!("skipped: RAIL_TEST_NCCL does not name the folder of NCCL's headers for network plugins");
        return;
    };
    let room = tempfile::tempdir().unwrap();
    let folder = Path::new(&folder);
    let arguments = ["-DUPSTREAM".to_owned(), format!("-I{}", folder.display())];
    let Some(found) = measured("sizes.c", room.path(), &arguments) else { return };
    assert_eq!(lines(&ours()), found);
    // Those of tuners and profilers are in NCCL's own sources.
    let own = folder.join("../../../../src/include/plugin");
    if !own.is_dir() {
        println!("skipped: {} is not there", own.display());
        return;
    }
    let arguments = [&arguments[..], &[format!("-I{}", own.display())]].concat();
    assert_eq!(Some(lines(&tuners())), measured("tuner.c", room.path(), &arguments));
    assert_eq!(Some(lines(&profilers())), measured("profiler.c", room.path(), &arguments));
}

/// The library has exactly these names for NCCL.
#[test]
fn all_versions_are_exported() {
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(crate::world::library()).output()
    else {
        println!("skipped: no nm");
        return;
    };
    let symbols = String::from_utf8(output.stdout).unwrap();
    let names = symbols.lines().filter_map(|line| line.split_whitespace().next_back());
    let names: Vec<&str> = names.filter(|name| name.starts_with("nccl")).collect();
    let net = ["v10", "v11", "v12", "v8", "v9"].map(|version| format!("ncclNetPlugin_{version}"));
    let tuner = (3..=6).map(|version| format!("ncclTunerPlugin_v{version}"));
    let profiler = (1..=6).map(|version| format!("ncclProfiler_v{version}"));
    assert_eq!(names, net.into_iter().chain(profiler).chain(tuner).collect::<Vec<_>>());
}
