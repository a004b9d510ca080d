//! A library that stands in for libibverbs in tests, loaded by the same loader: devices whose queue pairs are joined inside one
//! process, with faults that no machine has on demand. It moves the same bytes between the same addresses as a device would, some time
//! after they were posted and not at once, checks keys, ranges, states and depths, and counts what was not given back. Its own
//! functions begin with `fake_`.
#![allow(unsafe_code, reason = "it is a C library")]
#![allow(clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks, reason = "called as libibverbs is")]
#![allow(clippy::unwrap_used, missing_docs, reason = "a part of tests")]

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use node_agent_engine_verbs::ffi::*;

#[path = "fake/world.rs"]
mod world;

use world::*;

unsafe extern "C" fn poll_cq(cq: *mut Cq, most: c_int, into: *mut Wc) -> c_int {
    let mut world = world();
    world.progress(AGE);
    let queue = world.cqs.get_mut(&(cq as usize)).unwrap();
    if queue.broken {
        return -1;
    }
    let n = queue.done.len().min(most as usize);
    let taken: Vec<Wc> = queue.done.drain(..n).collect();
    for (at, wc) in taken.iter().enumerate() {
        unsafe { *into.add(at) = *wc };
        if wc.opcode == 1
            && let Some(qp) = world.qps.get_mut(&wc.qp_num)
        {
            qp.under_way -= 1;
        }
    }
    n as c_int
}

unsafe extern "C" fn req_notify_cq(cq: *mut Cq, _: c_int) -> c_int {
    let mut world = world();
    world.cqs.get_mut(&(cq as usize)).unwrap().armed = true;
    world.progress(0);
    0
}

unsafe extern "C" fn post_send(qp: *mut Qp, wr: *mut SendWr, bad: *mut *mut SendWr) -> c_int {
    let (wr, number) = unsafe { (&*wr, (*qp).qp_num) };
    let mut world = world();
    let own = world.qps.get_mut(&number).unwrap();
    if own.state != QPS_RTS || own.under_way >= own.depths.0 {
        unsafe { *bad = wr as *const SendWr as *mut SendWr };
        return libc::ENOMEM;
    }
    own.under_way += 1;
    let pieces: Vec<Sge> = (0..wr.num_sge as usize).map(|at| unsafe { *wr.sg_list.add(at) }).collect();
    let inline = wr.send_flags & SEND_INLINE != 0;
    let on_gpu = pieces.iter().any(|piece| world.mapped.contains_key(&piece.lkey));
    assert!(!inline || !on_gpu, "the processor reads what goes inline");
    let inline = inline.then(|| unsafe { world.gather(&pieces) });
    let (id, remote, rkey, imm) = (wr.wr_id, wr.remote_addr, wr.rkey, wr.imm_data);
    let binds = (wr.opcode == WR_BIND_MW).then(|| {
        let info = wr.bind_info;
        assert_eq!(info.mw_access_flags, ACCESS_REMOTE_WRITE);
        (wr.bind_rkey, info.addr, info.length, unsafe { (*info.mr).lkey })
    });
    let (age, lost) = (0, false);
    world.posted.push_back(Posted { qp: number, id, remote, rkey, imm, binds, pieces, inline, age, lost });
    0
}

unsafe extern "C" fn post_recv(qp: *mut Qp, wr: *mut RecvWr, _: *mut *mut RecvWr) -> c_int {
    let mut world = world();
    let own = world.qps.get_mut(&unsafe { (*qp).qp_num }).unwrap();
    if own.expected.len() >= own.depths.1 {
        return libc::ENOMEM;
    }
    own.expected.push_back(unsafe { (*wr).wr_id });
    0
}

/// How many devices there are.
#[unsafe(no_mangle)]
pub extern "C" fn fake_devices() -> usize {
    world().devices.len()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut Device {
    let mut world = world();
    if std::env::var_os(ALL).is_some() && !world.devices.iter().any(|device| device.all) {
        world.devices.push(FakeDevice { all: true, ..FakeDevice::default() });
    }
    let devices = world.devices.len();
    let list: Vec<*mut Device> = (1..=devices).map(|n| n as *mut Device).chain([null_mut()]).collect();
    unsafe { *count = devices as c_int };
    Box::into_raw(list.into_boxed_slice()).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_free_device_list(_: *mut *mut Device) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_name(device: *mut Device) -> *const c_char {
    let name = &mut world().devices[device as usize - 1].name;
    name.get_or_insert_with(|| CString::new(format!("fake{}", device as usize - 1)).unwrap()).as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_open_device(device: *mut Device) -> *mut Context {
    let (mut world, device) = (world(), device as usize - 1);
    if world.fails(device, CONTEXT) {
        return null_mut();
    }
    world.alive(device, CONTEXT, 1);
    let none = std::ptr::null::<c_void>();
    let ops = ContextOps {
        before_windows: [none; 7],
        alloc_mw: Some(alloc_mw),
        bind_mw: none,
        dealloc_mw: Some(dealloc_mw),
        before_poll: none,
        poll_cq: Some(poll_cq),
        req_notify_cq: Some(req_notify_cq),
        before_post: [none; 12],
        post_send: Some(post_send),
        post_recv: Some(post_recv),
        after_post: [none; 5],
    };
    let context = Context { device: null_mut(), ops, cmd_fd: -1, async_fd: -1, num_comp_vectors: 1 };
    let open = Box::into_raw(Box::new(Open { context, rest: [0; 8], device }));
    let fd = world.pipe(open as usize);
    unsafe { (*open).context.async_fd = fd };
    world.devices[device].contexts.push(open as usize);
    open.cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut Context) -> c_int {
    let (mut world, device) = (world(), unsafe { device_of(context) });
    world.alive(device, CONTEXT, -1);
    world.pipes.remove(&(context as usize));
    world.devices[device].contexts.retain(|other| *other != context as usize);
    drop(unsafe { Box::from_raw(context.cast::<Open>()) });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(context: *mut Context, _: u8, into: *mut PortAttr) -> c_int {
    let down = world().devices[unsafe { device_of(context) }].down;
    let state = if down { 1 } else { PORT_ACTIVE };
    unsafe { *into = PortAttr { state, active_mtu: 5, max_mtu: 5, ..PortAttr::default() } };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut Context,
    into: *mut GidEntry,
    _: usize,
    _: u32,
    _: usize,
) -> isize {
    let world = world();
    let device = &world.devices[unsafe { device_of(context) }];
    if device.all {
        for at in 0..RAILS * NODES {
            let mut gid = [0; 16];
            gid[10..].copy_from_slice(&[255, 255, 127, 0, at / NODES + 1, at % NODES + 1]);
            let (gid_index, gid_type) = (u32::from(at), GID_TYPE_ROCE_V2);
            let entry = GidEntry { gid: Gid(gid), gid_index, port_num: 1, gid_type, ndev_ifindex: 0 };
            unsafe { *into.add(usize::from(at)) = entry };
        }
        return isize::from(u16::from(RAILS * NODES) as i16);
    }
    let entry =
        GidEntry { gid: device.gid, gid_index: device.index, port_num: 1, gid_type: 1, ndev_ifindex: 0 };
    unsafe { *into = entry };
    unsafe { *into.add(1) = GidEntry { gid_type: GID_TYPE_ROCE_V2, ..entry } };
    2
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_alloc_pd(context: *mut Context) -> *mut Pd {
    let (mut world, device) = (world(), unsafe { device_of(context) });
    if world.fails(device, PD) {
        return null_mut();
    }
    world.alive(device, PD, 1);
    Box::into_raw(Box::new(Pd { context, handle: 0 }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(pd: *mut Pd) -> c_int {
    let pd = unsafe { Box::from_raw(pd) };
    world().alive(unsafe { device_of(pd.context) }, PD, -1);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(pd: *mut Pd, addr: *mut c_void, length: usize, access: c_int) -> *mut Mr {
    let context = unsafe { (*pd).context };
    let (mut world, device) = (world(), unsafe { device_of(context) });
    if world.fails(device, MR) {
        return null_mut();
    }
    world.alive(device, MR, 1);
    world.next += 1;
    let key = world.next;
    let remote = access as c_uint & ACCESS_REMOTE_WRITE != 0;
    assert!(!remote || access as c_uint & ACCESS_MW_BIND == 0, "who has windows needs no more");
    world.regions.insert(key, (addr as u64, length as u64, remote, device));
    Box::into_raw(Box::new(Mr { context, pd, addr, length, handle: 0, lkey: key, rkey: key }))
}

unsafe extern "C" fn alloc_mw(pd: *mut Pd, kind: c_uint) -> *mut Mw {
    let context = unsafe { (*pd).context };
    let (mut world, device) = (world(), unsafe { device_of(context) });
    assert_eq!(kind, MW_TYPE_2);
    if world.fails(device, MW) {
        return null_mut();
    }
    world.alive(device, MW, 1);
    world.next += 1;
    // The tag of a key is its last byte, which changes when it is bound.
    let rkey = world.next << 8 | 0xff;
    Box::into_raw(Box::new(Mw { context, pd, rkey, handle: 0, kind }))
}

unsafe extern "C" fn dealloc_mw(mw: *mut Mw) -> c_int {
    let (mut world, mw) = (world(), unsafe { Box::from_raw(mw) });
    let key = mw.rkey & !0xff;
    if let Some((_, _, qp)) = world.windows.remove(&key) {
        // As devices count on.
        assert!(world.qps.contains_key(&qp), "a window is given back before its queue pair");
    }
    world.alive(unsafe { device_of(mw.context) }, MW, -1);
    0
}

/// As the kernel checks it: a descriptor that is open, a range inside its file, an address as far into its page as the offset.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut Pd,
    offset: u64,
    length: usize,
    iova: u64,
    file: c_int,
    access: c_int,
) -> *mut Mr {
    const PAGE: u64 = 4096;
    let context = unsafe { (*pd).context };
    let (mut world, device) = (world(), unsafe { device_of(context) });
    if world.fails(device, DMA_BUF) {
        return null_mut();
    }
    let bytes = unsafe { libc::lseek(file, 0, libc::SEEK_END) };
    if bytes < 0 {
        fail(libc::EBADF);
        return null_mut();
    }
    if offset % PAGE != iova % PAGE || offset + length as u64 > bytes as u64 {
        fail(libc::EINVAL);
        return null_mut();
    }
    let map = unsafe {
        libc::mmap(null_mut(), bytes as usize, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file, 0)
    };
    assert_ne!(map, libc::MAP_FAILED);
    for kind in [MR, DMA_BUF] {
        world.alive(device, kind, 1);
    }
    world.next += 1;
    let key = world.next;
    let remote = access as c_uint & ACCESS_REMOTE_WRITE != 0;
    world.regions.insert(key, (iova, length as u64, remote, device));
    world.mapped.insert(key, ((map as u64).wrapping_add(offset).wrapping_sub(iova), bytes as usize));
    let addr = iova as *mut c_void;
    Box::into_raw(Box::new(Mr { context, pd, addr, length, handle: 0, lkey: key, rkey: key }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(mr: *mut Mr) -> c_int {
    let (mut world, mr) = (world(), unsafe { Box::from_raw(mr) });
    if let Some((address, length, ..)) = world.regions.remove(&mr.lkey) {
        let inside = |window: &(u64, u64, u32)| window.0 >= address && window.0 < address + length;
        assert!(!world.windows.values().any(inside), "a window is given back before its memory");
    }
    if let Some((shift, bytes)) = world.mapped.remove(&mr.lkey) {
        world.alive(unsafe { device_of(mr.context) }, DMA_BUF, -1);
        // Offset and address are the same here, so this is where it is mapped.
        assert_eq!(unsafe { libc::munmap(shift as *mut c_void, bytes) }, 0);
    }
    world.alive(unsafe { device_of(mr.context) }, MR, -1);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_comp_channel(context: *mut Context) -> *mut CompChannel {
    let (mut world, device) = (world(), unsafe { device_of(context) });
    if world.fails(device, CHANNEL) {
        return null_mut();
    }
    world.alive(device, CHANNEL, 1);
    let completion_channel = Box::into_raw(Box::new(CompChannel { context, fd: -1, refcnt: 0 }));
    let fd = world.pipe(completion_channel as usize);
    unsafe { (*completion_channel).fd = fd };
    completion_channel
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_comp_channel(completion_channel: *mut CompChannel) -> c_int {
    let mut world = world();
    world.pipes.remove(&(completion_channel as usize));
    let completion_channel = unsafe { Box::from_raw(completion_channel) };
    world.alive(unsafe { device_of(completion_channel.context) }, CHANNEL, -1);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_cq(
    context: *mut Context,
    entries: c_int,
    cq_context: *mut c_void,
    completion_channel: *mut CompChannel,
    _: c_int,
) -> *mut Cq {
    let (mut world, device) = (world(), unsafe { device_of(context) });
    // As Soft-RoCE has it.
    const MOST_ENTRIES: c_int = 32_767;
    if world.fails(device, CQ) || entries > MOST_ENTRIES {
        return null_mut();
    }
    world.alive(device, CQ, 1);
    let cq = Box::into_raw(Box::new(Cq {
        context,
        channel: completion_channel,
        cq_context,
        handle: 0,
        cqe: entries,
    }));
    let (done, armed, entries) = (VecDeque::new(), false, entries as usize);
    let queue = FakeCq {
        completion_channel: completion_channel as usize,
        entries,
        done,
        armed,
        device,
        broken: false,
    };
    world.cqs.insert(cq as usize, queue);
    cq
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_cq(cq: *mut Cq) -> c_int {
    let mut world = world();
    world.cqs.remove(&(cq as usize));
    let cq = unsafe { Box::from_raw(cq) };
    world.alive(unsafe { device_of(cq.context) }, CQ, -1);
    0
}

fn next_event(owner: usize) -> Option<(c_uint, u64)> {
    let mut world = world();
    let pipe = world.pipes.get_mut(&owner)?;
    rustix::io::read(&pipe.read, &mut [0; 1]).ok()?;
    pipe.events.pop_front()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_cq_event(
    completion_channel: *mut CompChannel,
    cq: *mut *mut Cq,
    _: *mut *mut c_void,
) -> c_int {
    let Some((_, element)) = next_event(completion_channel as usize) else { return -1 };
    unsafe { *cq = element as *mut Cq };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_cq_events(_: *mut Cq, _: c_uint) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(pd: *mut Pd, init: *mut QpInitAttr) -> *mut Qp {
    let (context, init) = unsafe { ((*pd).context, &*init) };
    let (mut world, device) = (world(), unsafe { device_of(context) });
    if world.fails(device, QP) {
        return null_mut();
    }
    world.alive(device, QP, 1);
    world.next += 1;
    let number = world.next;
    let qp = FakeQp {
        device,
        send: init.send_cq as usize,
        receive: init.recv_cq as usize,
        depths: (init.cap.max_send_wr as usize, init.cap.max_recv_wr as usize),
        expected: VecDeque::new(),
        under_way: 0,
        state: 0,
        peer: 0,
        failed: false,
    };
    world.qps.insert(number, qp);
    Box::into_raw(Box::new(Qp {
        context,
        qp_context: null_mut(),
        pd,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: null_mut(),
        handle: 0,
        qp_num: number,
        state: 0,
        qp_type: QPT_RC,
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(qp: *mut Qp, attributes: *mut QpAttr, mask: c_int) -> c_int {
    let (mut world, attributes) = (world(), unsafe { *attributes });
    let number = unsafe { (*qp).qp_num };
    let own = world.qps.get_mut(&number).unwrap();
    if attributes.qp_state == QPS_ERR {
        (own.state, own.failed) = (QPS_ERR, true);
        world.flush(number);
        return 0;
    }
    // Each state follows the one before it.
    if attributes.qp_state != own.state + 1 || mask & QP_STATE == 0 {
        return libc::EINVAL;
    }
    own.state = attributes.qp_state;
    if own.state == QPS_RTR {
        own.peer = attributes.dest_qp_num;
        let device = own.device;
        if !world.devices[device].all
            && world.devices[device].index != u32::from(attributes.ah_attr.grh.sgid_index)
        {
            return libc::EINVAL;
        }
        world.devices[device].path = attributes.ah_attr;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(qp: *mut Qp) -> c_int {
    let qp = unsafe { Box::from_raw(qp) };
    while world().devices[unsafe { device_of(qp.context) }].slow {
        std::thread::yield_now();
    }
    let mut world = world();
    world.qps.remove(&qp.qp_num);
    world.alive(unsafe { device_of(qp.context) }, QP, -1);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_async_event(context: *mut Context, event: *mut AsyncEvent) -> c_int {
    let Some((event_type, element)) = next_event(context as usize) else { return -1 };
    unsafe { *event = AsyncEvent { element, event_type } };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_async_event(_: *mut AsyncEvent) {}

/// A new device with this GID, at index 3; gives its number.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_device(gid: *const u8) -> usize {
    let mut bytes = [0; 16];
    unsafe { std::ptr::copy(gid, bytes.as_mut_ptr(), 16) };
    let mut world = world();
    world.devices.push(FakeDevice { gid: Gid(bytes), index: 3, ..FakeDevice::default() });
    world.devices.len() - 1
}

fn report(world: &mut World, device: usize, kind: c_uint) {
    let contexts = world.devices[device].contexts.clone();
    contexts.into_iter().for_each(|context| world.event(context, kind, 1));
}

/// What can happen to a device: 0 the link goes down, 1 comes up; 2 messages vanish without a word, 3 no more; 4 the next `value`
/// messages come twice; 5 acknowledgements are lost, 6 no more; 7 the GID moves to index `value`; 8 messages are held back and not
/// read, 9 no more; 10 to give back a queue pair takes for ever, 11 no more; 12 its
/// completion queues fail; 13 it binds no windows that it has made;
/// 14 it fails for good, and is there again for those who open it again, 15 but only after this; 100 and a kind: this call fails with the
/// error `value`, zero for none.
#[unsafe(no_mangle)]
extern "C" fn fake_fault(device: usize, what: c_int, value: c_int) {
    let world = &mut *world();
    let own = &mut world.devices[device];
    match what {
        0 | 1 => {
            own.down = what == 0;
            report(world, device, if what == 0 { EVENT_PORT_ERR } else { EVENT_PORT_ACTIVE });
        }
        2 | 3 => own.silent = what == 2,
        4 => own.duplicates = value as u32,
        5 | 6 => own.lose_acknowledgements = what == 5,
        7 => {
            own.index = value as u32;
            report(world, device, EVENT_GID_CHANGE);
        }
        8 | 9 => {
            own.held = what == 8;
            world.progress(0);
        }
        12 => {
            world
                .cqs
                .values_mut()
                .filter(|queue| queue.device == device)
                .for_each(|queue| queue.broken = true);
            report(world, device, EVENT_CQ_ERR);
        }
        14 => {
            own.fail[CONTEXT] = libc::ENODEV;
            world.qps.values_mut().filter(|qp| qp.device == device).for_each(|qp| qp.failed = true);
            world
                .cqs
                .values_mut()
                .filter(|queue| queue.device == device)
                .for_each(|queue| queue.broken = true);
            // Nothing is said of what was under way.
            let qps = &world.qps;
            world.posted.retain(|posted| qps.get(&posted.qp).is_none_or(|qp| qp.device != device));
            report(world, device, EVENT_DEVICE_FATAL);
        }
        15 => own.fail[CONTEXT] = 0,
        13 => own.never_binds = true,
        10 | 11 => own.slow = what == 10,
        kind => own.fail[kind as usize - 100] = value,
    }
}

/// How many objects of a kind a device has.
#[unsafe(no_mangle)]
extern "C" fn fake_alive(device: usize, kind: usize) -> i64 {
    world().devices[device].alive[kind]
}

/// The traffic class, flow label and GID index of the latest path.
#[unsafe(no_mangle)]
extern "C" fn fake_path(device: usize) -> u64 {
    let route = world().devices[device].path.grh;
    u64::from(route.traffic_class) << 32 | u64::from(route.sgid_index) << 40 | u64::from(route.flow_label)
}
