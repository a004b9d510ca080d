//! Every operation, on GPUs and beside ordinary memory, with the same bits; and which way it took.

use node_agent_client::{Call, Client, Dtype, GpuBuffer, OpKind, Operation, ReduceOp, Source, Target};

use crate::fake::{Fake, NO_DMA_BUF, each};
use crate::world::World;

const COUNT: usize = 30_000;

fn input(rank: usize, elements: usize) -> Vec<u8> {
    (0..elements).flat_map(|at| ((at * 31 + rank * 1009) as i32).to_ne_bytes()).collect()
}

/// All collectives of a job of so many ranks. The broadcast is the last: it overwrites its input.
fn collectives(size: u32) -> [Operation; 5] {
    let root = size - 1;
    let broadcast = Operation::Broadcast { root };
    [Operation::AllReduce, Operation::ReduceScatter, Operation::AllGather, Operation::AllToAll, broadcast]
}

fn call(operation: Operation) -> Call {
    Call { operation, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: COUNT as u64 }
}

/// An operation over ordinary memory: what the others are compared with.
fn plain(client: &Client, call: Call) -> Vec<u8> {
    let (input_len, output_len) = client.operand_bytes(&call).unwrap();
    let own = input(client.rank() as usize, input_len / 4);
    let mut begun = client.begin(call, Source::Bytes(&own), Target::Bytes).unwrap();
    begun.wait().unwrap();
    let mut output = vec![0; output_len];
    begun.fetch(&mut output).unwrap();
    output
}

/// The same on a GPU: operands begin at byte 4 of both ranges, a broadcast is in place.
fn on_gpu(fake: &Fake, client: &Client, call: Call, (from, to): (&GpuBuffer, &GpuBuffer)) -> (Vec<u8>, bool) {
    let (_, output_len) = client.operand_bytes(&call).unwrap();
    let to = if matches!(call.operation, Operation::Broadcast { .. }) { from } else { to };
    let mut begun = client.begin(call, Source::Gpu(from.at(4)), Target::Gpu(to.at(4))).unwrap();
    let way = begun.way().unwrap().clone();
    begun.wait().unwrap();
    begun.store().unwrap();
    (fake.read(to.pointer() + 4, output_len), way.direct)
}

/// Messages go around in a ring, from GPU to GPU; says whether this rank's went from its GPU to the wire.
fn message(fake: &Fake, client: &Client, (from, to): (&GpuBuffer, &GpuBuffer)) -> bool {
    let (rank, size) = (client.rank(), client.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let receive = call(Operation::Recv { from: previous, tag: 3 });
    let mut receive = client.begin(receive, Source::Bytes(&[]), Target::Gpu(to.at(8))).unwrap();
    let send = call(Operation::Send { to: next, tag: 3 });
    let mut send = client.begin(send, Source::Gpu(from.at(4)), Target::Bytes).unwrap();
    receive.wait().unwrap();
    receive.store().unwrap();
    send.wait().unwrap();
    assert!(!receive.way().unwrap().direct);
    let expected = input(previous as usize, COUNT);
    assert!(fake.read(to.pointer() + 8, expected.len()) == expected, "message of rank {previous} to {rank}");
    send.way().unwrap().direct
}

/// All operations on all ranks; gives by operation whether rank 0's input went from its GPU to the wire.
fn all(fake: &Fake, world: &World, ranks: u32) -> Vec<(OpKind, bool)> {
    let ways = each(world, ranks, |client| {
        let (rank, size) = (client.rank(), client.size());
        let wide = COUNT * size as usize;
        let bytes = [&[0xee; 4][..], &input(rank as usize, wide), &[0xee; 4096]].concat();
        // Two GPUs, that of the output another one.
        let [from, to] = [fake.gpu(&bytes), fake.gpu(&vec![0xdd; bytes.len()])];
        let register = |pointer| client.register(pointer, bytes.len() as u64).unwrap();
        let (from, to) = (register(from), register(to));
        let mut ways = Vec::new();
        ways.push((OpKind::Send, message(fake, &client, (&from, &to))));
        for operation in collectives(size) {
            let call = call(operation);
            let expected = plain(&client, call);
            let (found, direct) = on_gpu(fake, &client, call, (&from, &to));
            assert!(found == expected, "{call} of rank {rank}");
            assert_eq!(fake.read(to.pointer(), 4), [0xdd; 4], "{call}: nothing before the result is written");
            ways.push((operation.kind(), direct));
            client.barrier().unwrap();
        }
        drop((from, to));
        client.detach().unwrap();
        ways
    });
    ways.into_iter().next().unwrap()
}

#[test]
fn every_operation_has_the_same_bits_from_a_gpu() {
    // A rank for each server: all that needs no arithmetic goes from the GPU. Rank 0 is not the broadcast's root.
    let fake = Fake::new();
    let ways = all(&fake, &World::new(&[0, 1, 2], 2), 3);
    let direct: Vec<OpKind> = ways.iter().filter(|(_, direct)| *direct).map(|(kind, _)| *kind).collect();
    assert_eq!(direct, [OpKind::Send, OpKind::AllGather, OpKind::AllToAll]);
    // Several ranks on a server: only messages to other servers do. Rank 1 sends to another one, rank 0 to its neighbour.
    let ways = all(&fake, &World::new(&[0, 0, 1, 1], 2), 4);
    assert!(ways.iter().all(|(_, direct)| !direct), "{ways:?}");
    // One server: nothing goes over rails.
    let ways = all(&fake, &World::new(&[0, 0], 0), 2);
    assert!(ways.iter().all(|(_, direct)| !direct), "{ways:?}");
}

#[test]
fn without_dma_bufs_everything_is_staged_with_the_same_bits() {
    let fake = Fake::new();
    fake.fault(NO_DMA_BUF);
    let ways = all(&fake, &World::new(&[0, 1, 2], 2), 3);
    assert!(ways.len() == 6 && ways.iter().all(|(_, direct)| !direct), "{ways:?}");
}

#[test]
fn what_goes_from_the_gpu_is_copied_by_no_processor() {
    let fake = Fake::new();
    let world = World::new(&[0, 1], 4);
    let (bytes, before) = (input(0, 1 << 18), fake.copied());
    let moved = each(&world, 2, |client| {
        let pointer = fake.gpu(&if client.rank() == 0 { bytes.clone() } else { vec![0; bytes.len()] });
        let memory = client.register(pointer, bytes.len() as u64).unwrap();
        assert!(memory.way().direct && memory.way().why.contains("dma-buf"), "{}", memory.way());
        assert_eq!(memory.pci_address(), "0000:1b:00.0");
        let count = bytes.len() as u64 / 4;
        let call = |operation| Call { operation, dtype: Dtype::I32, reduce: ReduceOp::Sum, count };
        // Sent by rank 0, as a message and as a broadcast, and never copied there.
        for (mine, theirs) in [
            (Operation::Send { to: 1, tag: 0 }, Operation::Recv { from: 0, tag: 0 }),
            (Operation::Broadcast { root: 0 }, Operation::Broadcast { root: 0 }),
        ] {
            client.barrier().unwrap();
            let call = call(if client.rank() == 0 { mine } else { theirs });
            let place = memory.at(0);
            let mut begun = client.begin(call, Source::Gpu(place), Target::Gpu(place)).unwrap();
            assert_eq!(begun.way().unwrap().direct, client.rank() == 0, "{call}: {}", begun.way().unwrap());
            begun.wait().unwrap();
            begun.store().unwrap();
            assert!(fake.read(pointer, bytes.len()) == bytes, "{call} of rank {}", client.rank());
        }
        client.barrier().unwrap();
        fake.copied() - before
    });
    // The receiver's copies alone: to its GPU, twice.
    assert_eq!(moved, [2 * bytes.len() as u64; 2]);
}

#[test]
fn operands_on_a_gpu_and_in_ordinary_memory_mix() {
    let fake = Fake::new();
    let world = World::new(&[0, 1], 2);
    each(&world, 2, |client| {
        let (rank, own) = (client.rank() as usize, input(client.rank() as usize, 1000));
        let pointer = fake.gpu(&[&own[..], &[0; 4000]].concat());
        let memory = client.register(pointer, 8192).unwrap();
        let call =
            Call { operation: Operation::AllGather, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: 1000 };
        let expected = [input(0, 1000), input(1, 1000)].concat();
        let mut begun = client.begin(call, Source::Gpu(memory.at(0)), Target::Bytes).unwrap();
        assert!(!begun.way().unwrap().direct, "its own part is wanted in ordinary memory");
        begun.wait().unwrap();
        let mut got = vec![0; 8000];
        begun.fetch(&mut got).unwrap();
        assert!(got == expected);
        let mut begun = client.begin(call, Source::Bytes(&own), Target::Gpu(memory.at(0))).unwrap();
        begun.wait().unwrap();
        begun.store().unwrap();
        assert!(fake.read(pointer, 8000) == expected, "rank {rank}");
    });
}
