//! What goes wrong: ranks that die or lie, memory in use, limits, drivers that refuse.

use std::os::fd::AsFd;
use std::time::Instant;

use node_agent_client::{Call, Dtype, Error, FailureCode, Operation, ReduceOp, Source, Target};
use node_agent_engine::GpuConfig;
use node_agent_ipc::{Channel, Post, Reply, Request, Span};

use crate::fake::{DMA_BUF, FAILS, Fake, LONG, attach, drain, each, socket};
use crate::world::World;

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn send(to: u32) -> Call {
    Call { operation: Operation::Send { to, tag: 0 }, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: 1024 }
}

#[test]
fn memory_in_use_is_not_released() {
    let fake = Fake::new();
    let world = World::new(&[0, 1], 2);
    let (zero, one) = (attach(&world, 0), attach(&world, 1));
    let pointer = fake.gpu(&[5; 4096]);
    let memory = zero.register(pointer, 4096).unwrap();
    assert_eq!(fake.registered(), 2, "once on each rail of its server");
    // Nobody receives it yet.
    let mut begun = zero.begin(send(1), Source::Gpu(memory.at(0)), Target::Bytes).unwrap();
    let (memory, error) = memory.release().unwrap_err();
    assert!(matches!(error, Error::InUse { calls: 1, .. }), "{error}");
    let receive = Call { operation: Operation::Recv { from: 0, tag: 0 }, ..send(1) };
    let mut got = one.begin(receive, Source::Bytes(&[]), Target::Bytes).unwrap();
    got.wait().unwrap();
    begun.wait().unwrap();
    let mut bytes = vec![0; 4096];
    got.fetch(&mut bytes).unwrap();
    assert_eq!(bytes, [5; 4096]);
    drop(begun);
    memory.release().unwrap();
    until("what was released is registered", || fake.registered() == 0);
}

/// What an engine answers to a request made by hand.
fn ask(channel: &Channel, id: u64, request: &Request, file: Option<std::os::fd::BorrowedFd<'_>>) -> Reply {
    channel.send(&request.encode(id), file).unwrap();
    channel.wait_readable(Instant::now() + LONG).unwrap();
    let reply = Reply::decode(&channel.receive().unwrap().unwrap().packet).unwrap();
    assert_eq!(reply.0, id);
    reply.1
}

#[test]
fn what_a_lying_rank_hands_over_is_refused_by_name() {
    let fake = Fake::new();
    let world = World::new(&[0, 1], 1);
    let channel = Channel::connect(&socket(&world, 0)).unwrap();
    let hello = Request::Hello { rank: 0, pid: 1, job_uid: "uid-1".into() };
    assert!(matches!(ask(&channel, 1, &hello, None), Reply::Welcome(_)));
    let memory = rustix::fs::memfd_create("gpu", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&memory, 8192).unwrap();
    let lend = |offset, bytes| Request::Lend { offset, bytes, gpu: "0000:1b:00.0".into() };
    let refused = |id, request: &Request, file, words: &str| match ask(&channel, id, request, file) {
        Reply::Failed(failure) => {
            assert_eq!(failure.code, FailureCode::InvalidArgument, "{failure}");
            assert!(failure.text.contains(words), "{failure}");
        }
        other => panic!("not refused: {other:?}"),
    };
    refused(2, &lend(0, 4096), None, "no dma-buf came");
    refused(3, &lend(0, 8193), Some(memory.as_fd()), "the dma-buf holds 8192 bytes");
    refused(4, &lend(u64::MAX, 1), Some(memory.as_fd()), "the dma-buf holds 8192 bytes");
    refused(5, &lend(0, 0), Some(memory.as_fd()), "at least one byte");
    let (pipe, _end) = rustix::pipe::pipe().unwrap();
    refused(6, &lend(0, 1), Some(pipe.as_fd()), "is no dma-buf: pipe:");
    let file = tempfile::tempfile().unwrap();
    refused(7, &lend(0, 1), Some(file.as_fd()), "is no dma-buf: /");
    // What the kernel itself refuses is no failure: calls are staged, and the reason is told.
    fake.verbs_fault(FAILS + DMA_BUF as i32, libc::EINVAL);
    match ask(&channel, 8, &lend(0, 4096), Some(memory.as_fd())) {
        Reply::Lent(lent) => {
            assert_eq!((lent.buffer, lent.here, lent.apart), (0, vec![0], true));
            assert!(lent.why.contains("ibv_reg_dmabuf_mr"), "{}", lent.why);
        }
        other => panic!("{other:?}"),
    }
    fake.verbs_fault(FAILS + DMA_BUF as i32, 0);
    // Results never go to a GPU, nor inputs that the processor must read; nor is it anybody else's.
    let Reply::Lent(lent) = ask(&channel, 9, &lend(4096, 4096), Some(memory.as_fd())) else { panic!() };
    let span = Span { buffer: lent.buffer, offset: 0 };
    let none = Span::default();
    let post = |operation, input, output| {
        Request::Post(Post { call: Call { operation, ..send(1) }, input, output, timeout_ms: 0 })
    };
    refused(10, &post(Operation::AllReduce, span, span), None, "a result goes elsewhere");
    refused(11, &post(Operation::Recv { from: 1, tag: 0 }, none, span), None, "none goes to a GPU");
    refused(12, &Request::Map { rank: 0, buffer: lent.buffer }, None, "holds no buffer");
    assert_eq!(ask(&channel, 13, &Request::Free { buffer: lent.buffer }, None), Reply::Done);
    refused(14, &post(Operation::Send { to: 1, tag: 0 }, span, none), None, "does not exist");
    // An engine that may open no more files lives on, and says so.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = |current| {
        let limit = rustix::process::Rlimit { current, ..most };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    };
    limit(Some(3));
    let answer = ask(&channel, 17, &lend(0, 4096), Some(memory.as_fd()));
    limit(most.current);
    let Reply::Failed(failure) = answer else { panic!("not refused: {answer:?}") };
    assert_eq!(failure.code, FailureCode::Exhausted, "{failure}");
    // It ends without a word, its memory registered and a call under way: that is given back, and the other rank is told.
    let Reply::Lent(lent) = ask(&channel, 15, &lend(0, 8192), Some(memory.as_fd())) else { panic!() };
    let span = Span { buffer: lent.buffer, offset: 4096 };
    channel.send(&post(Operation::Send { to: 1, tag: 0 }, span, none).encode(16), None).unwrap();
    assert_eq!(fake.registered(), 1);
    let other = attach(&world, 1);
    drop(channel);
    until("a dead rank's memory is registered", || fake.registered() == 0);
    let lost = other.barrier().unwrap_err();
    assert_eq!(lost.code(), FailureCode::RankLost, "{lost}");
}

#[test]
fn lent_memory_is_bounded() {
    let fake = Fake::new();
    let world = World::with(&[0, 1], 1, |config| {
        (config.limits.buffers, config.limits.gpu_bytes) = (2, 3 * 4096);
    });
    let client = attach(&world, 0);
    let register = |pages: usize| client.register(fake.gpu(&vec![0; pages * 4096]), pages as u64 * 4096);
    let code = |result: Result<_, Error>| result.map(drop).unwrap_err().code();
    let two = register(2).unwrap();
    assert_eq!(code(register(2)), FailureCode::Exhausted, "bytes");
    let one = register(1).unwrap();
    drop(two);
    let again = register(2).unwrap();
    assert_eq!(code(register(1)), FailureCode::Exhausted, "buffers");
    drop((one, again));
    register(3).unwrap();
}

#[test]
fn why_memory_is_staged_is_told() {
    let fake = Fake::new();
    let page = || fake.gpu(&[0; 4096]);
    let why = |world: &World, pointer| {
        let way = attach(world, 0).register(pointer, 4096).unwrap().way();
        assert!(!way.direct);
        way.why
    };
    let world = World::with(&[0, 1], 1, |config| config.checksum = true);
    assert!(why(&world, page()).contains("checksums"));
    let world = World::with(&[0, 1], 1, |config| config.transport = node_agent_engine::Transport::Tcp);
    assert!(why(&world, page()).contains("TCP"));
    let world = World::new(&[0, 0], 0);
    assert!(why(&world, page()).contains("this server"));
    // What the agent found of a GPU; the other is tried.
    let found = |config: &mut node_agent_engine::Config| {
        let why = "mlx5_0 is too far: SYS".into();
        config.gpus = vec![GpuConfig { gpu: "0000:2b:00.0".into(), dma_buf: false, why }];
    };
    let world = World::with(&[0, 1], 1, found);
    fake.use_gpu(1);
    assert_eq!(why(&world, page()), "mlx5_0 is too far: SYS");
    fake.use_gpu(0);
    let client = attach(&world, 1);
    assert!(client.register(page(), 4096).unwrap().way().direct);
    // An old driver.
    fake.fault(crate::fake::NO_DMA_BUF);
    assert!(client.register(page(), 4096).unwrap().way().why.contains("cuMemGetHandleForAddressRange"));
    fake.fault(0);
    // What is no GPU's.
    let here = [0_u8; 16];
    let error = client.register(here.as_ptr().addr() as u64, 16).unwrap_err();
    assert!(
        matches!(error, Error::Gpu(_)) && error.to_string().contains("is not memory of a GPU"),
        "{error}"
    );
}

/// A rail that goes down while memory of a GPU is under way is left for the others, and nothing is read by the processor instead.
#[test]
fn calls_from_a_gpu_go_on_without_a_rail() {
    let fake = Fake::new();
    let world = World::new(&[0, 1], 2);
    let before = fake.copied();
    let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at * 7 % 251) as u8).collect();
    each(&world, 2, |client| {
        let call = Call { count: bytes.len() as u64 / 4, ..send(1) };
        let receive = Call { operation: Operation::Recv { from: 0, tag: 0 }, ..call };
        if client.rank() == 1 {
            for _ in 0..20 {
                let mut begun = client.begin(receive, Source::Bytes(&[]), Target::Bytes).unwrap();
                begun.wait().unwrap();
                let mut got = vec![0; bytes.len()];
                begun.fetch(&mut got).unwrap();
                assert!(got == bytes);
            }
            return client.barrier().unwrap();
        }
        let memory = client.register(fake.gpu(&bytes), bytes.len() as u64).unwrap();
        for round in 0..20 {
            if round == 5 {
                drain(&world, 1);
            }
            let mut begun = client.begin(call, Source::Gpu(memory.at(0)), Target::Bytes).unwrap();
            assert!(begun.way().unwrap().direct);
            begun.wait().unwrap();
        }
        client.barrier().unwrap();
    });
    assert_eq!(fake.copied(), before);
}
