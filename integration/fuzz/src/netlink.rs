//! What the kernel says on its netlink sockets: any bytes are messages, attributes and what the families read in them, or errors.

use node_agent_netlink::{
    dcb::table::{Change, Table, attribute},
    ethtool::{Family, Fec, LinkState, Pause},
    events,
    fake::{FakeKernel, Style},
    kernel::{Family as Socket, Kernel},
    rdma,
    route::{Link, decode_address},
    wire::{ATTRIBUTE, Attributes, Builder, HEADER, Message, Messages},
};

/// Reads them as a datagram, as the body of each family's answer, and as a request to the kernel in memory, whose answers are read again.
pub fn run(data: &[u8]) {
    let messages: Vec<_> = Messages::new(data).collect();
    assert!(messages.len() <= data.len() / HEADER + 1, "a message takes a header at least");
    assert!(Attributes::new(data).count() <= data.len() / ATTRIBUTE + 1);
    assert!(events::decode(data).len() <= messages.len());
    assert!(events::decode_rdma(data).len() <= messages.len());
    for message in messages.iter().flatten() {
        let _ = (message.code(), message.words());
        read(*message);
    }
    read(Message { kind: 78, flags: 0, sequence: 0, body: data });
    let nested = Builder::message(78, 0, &[0; 4]).put(attribute::IEEE, data).finish(0);
    for message in Messages::new(&nested).flatten() {
        read(message);
    }
    ask(data);
}

fn read(message: Message<'_>) {
    if let Ok(Table { app: Some(app), .. }) = Table::decode(message) {
        // What was read is written and read alike.
        let written = Change::AddApp(app.clone()).request("eth0").finish(1);
        let back = Messages::new(&written).flatten().find_map(|message| Table::decode(message).ok());
        assert!(back.is_some_and(|table| table.app == Some(app)), "an APP table changed on its way");
    }
    let _ = (Link::decode(message), decode_address(message), rdma::Notice::decode(message));
    let _ =
        (Pause::decode(message), LinkState::decode(message), Fec::decode(message), Family::decode(message));
    let _ = (rdma::Device::decode(message), rdma::Port::decode(message), rdma::decode_counters(message));
}

fn ask(data: &[u8]) {
    let kernel = FakeKernel::new();
    kernel.add("eth0", Style::Mlx5);
    for family in [Socket::Route, Socket::Generic, Socket::Rdma] {
        let Ok(mut channel) = kernel.open(family, &[]) else { return };
        if channel.send(data).is_err() {
            return;
        }
        let mut buffer = vec![0; 64 << 10];
        while let Ok(received) = channel.receive(&mut buffer, std::time::Duration::ZERO) {
            let answer = &buffer[..received.length.min(buffer.len())];
            assert!(
                Messages::new(answer).all(|message| message.is_ok()),
                "the kernel in memory answers in form"
            );
        }
    }
    let mut ioctl = data.to_vec();
    let _ = kernel.ethtool("eth0", &mut ioctl);
}
