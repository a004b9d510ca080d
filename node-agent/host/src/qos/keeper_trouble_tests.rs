//! The keeper where something is in the way: what cannot be read, trials that are disturbed, undos that fail.

use node_agent_netlink::{Errno, fake::Style};

use super::{
    keeper::Verdict,
    keeper_tests::{Disk, QUICK, SOON, deviations, keeper, settle},
    tests::{look, server},
};

#[test]
fn half_a_nic_that_cannot_be_read_does_not_return_to_service() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let mut first = keeper(&kernel, &disk, QUICK);
    kernel.die_after(9);
    let _ = first.turn(SOON, true);
    drop(first);
    kernel.revive();
    let left = deviations(&look(&kernel.foreign()));
    assert!(left > 0 && !disk.in_service(), "it ended in the middle: {left}");
    let broken = |times| {
        let failures = vec![Errno::IO; times];
        kernel.change(|world| world.devices.get_mut("eth0").unwrap().failures.insert("dcb", failures));
    };
    broken(10_000);
    let mut second = keeper(&kernel, &disk, QUICK);
    for _ in 0..5 {
        for outcome in second.turn(SOON, true).unwrap() {
            let Verdict::Unverified(what) = &outcome.verdict else { panic!("{outcome:?}") };
            assert!(what.iter().any(|line| line.contains("pfc") && line.contains("EIO")), "{what:?}");
        }
        assert!(!disk.in_service() && second.out_of_service().len() == 1, "{:?}", disk.stage());
    }
    broken(0);
    settle(&mut second);
    assert_eq!((deviations(&look(&kernel)), second.out_of_service().len()), (0, 0));
}
