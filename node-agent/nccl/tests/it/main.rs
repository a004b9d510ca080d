//! librail_nccl_net.so as NCCL uses it: loaded by dlopen in processes that play NCCL's proxy, over real engines whose rails are cut.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on should say so and end"
)]

mod hub;
mod layout;
mod plugin;
mod profiler;
mod roles;
mod tuner;
mod wire;
mod world;

use world::{World, expect_good, said};

#[test]
fn every_version_carries_messages_around_a_ring() {
    for version in 8..=12 {
        let world = World::new(&[0, 1, 1], 2);
        let outputs = world.run("ring", &[("RAIL_TEST_VERSION", format!("{version}"))]);
        assert_eq!(outputs.len(), 3);
    }
}

/// All ranks of a communicator choose alike, in every version of the interface for tuners, while rails carry data.
#[test]
fn ranks_choose_alike() {
    let world = World::new(&[0, 1, 1, 2], 2);
    world.run("choose", &[]);
    let chosen = |name: &str| -> Vec<String> {
        (0..4).map(|rank| world.hub().get(&format!("{name}.{rank}")).unwrap()).collect()
    };
    for name in ["v3", "v4", "v5", "v6"] {
        let chosen = chosen(name);
        assert_eq!(chosen, vec![chosen[0].clone(); 4], "{name}");
    }
}

/// Where nobody can say what rails cost, communicators are made all the same.
#[test]
fn without_an_agreement_nccl_chooses_by_itself() {
    let world = World::new(&[0, 1], 1);
    let outputs = world.run_with("unadvised", &[], || {
        if world.hub().get("left").is_some() {
            world.stop(0);
            world.hub().put("stopped", "yes");
        }
    });
    expect_good(&outputs);
}

/// Where the job asks for it, each rank writes which rank and which rail its messages wait for; else nothing is recorded.
#[test]
fn what_ranks_wait_for_is_drawn() {
    for version in 1..=6 {
        let folder = tempfile::tempdir().unwrap();
        let settings = [
            ("NCCL_PROFILER_PLUGIN", world::library().display().to_string()),
            ("RAIL_NCCL_TRACE", folder.path().display().to_string()),
            ("RAIL_TEST_PROFILER", format!("{version}")),
        ];
        World::new(&[0, 0, 1], 2).run("profile", &settings);
        let picture = |rank| {
            let path = folder.path().join(format!("nccl-rank{rank}.trace.json"));
            std::fs::read_to_string(&path).unwrap()
        };
        profiler::check(&[0, 1, 2].map(picture));
    }
    let world = World::new(&[0, 1], 1);
    world.run("unprofiled", &[]);
}

/// Whatever NCCL does: all versions of its interface draw the same of it, with what each of them says. `RAIL_TEST_SEEDS` programs, from
/// `RAIL_TEST_SEED` on.
#[test]
fn every_version_draws_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut player = std::process::Command::new(std::env::current_exe().unwrap());
    player.args(["as_player", "--exact", "--ignored", "--nocapture", "--test-threads", "1"]);
    player
        .env("NCCL_PROFILER_PLUGIN", world::library())
        .env("RAIL_NCCL_TRACE", folder.path())
        .env_remove("RANK");
    let output = player.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// The process that calls the profiler: not a test by itself.
#[test]
#[ignore = "what another test starts"]
fn as_player() {
    let Some(folder) = std::env::var_os("RAIL_NCCL_TRACE") else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("RAIL_TEST_SEED").unwrap_or(1), number("RAIL_TEST_SEEDS").unwrap_or(40));
    profiler::play_all(&world::library(), folder.as_ref(), first..first + count);
}

#[test]
fn ranks_of_one_server_need_no_rail() {
    World::new(&[0, 0, 0], 0).run("ring", &[]);
}

#[test]
fn bounds_are_kept_and_misuse_is_named() {
    World::new(&[0, 1], 2).run("bounds", &[]);
}

#[test]
fn a_rank_may_connect_to_itself() {
    World::new(&[0, 1], 1).run("itself", &[]);
}

/// `RAIL_TEST_SEEDS` of them, from `RAIL_TEST_SEED` on.
#[test]
fn random_programs_do_as_their_plan_says() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("RAIL_TEST_SEED").unwrap_or(1), number("RAIL_TEST_SEEDS").unwrap_or(6));
    for seed in first..first + count {
        println!("seed {seed}");
        let shape: &[usize] = [&[0, 1][..], &[0, 0, 1], &[0, 1, 2, 0]][(seed % 3) as usize];
        World::new(shape, 3).run("random", &[("RAIL_TEST_SEED", format!("{seed}"))]);
    }
}

#[test]
fn ends_close_whatever_is_in_flight() {
    World::new(&[0, 1], 2).run("closing", &[]);
}

/// Memory that is deregistered is freed at once, as by NCCL where it aborts a communicator; other communicators go on.
#[test]
fn memory_that_is_deregistered_is_left_alone() {
    for (ranks, rails) in [(&[0, 1][..], 2), (&[0, 0], 0)] {
        for version in [8, 12] {
            World::new(ranks, rails).run("deregister", &[("RAIL_TEST_VERSION", format!("{version}"))]);
        }
    }
}

#[test]
fn a_closed_listener_refuses() {
    World::new(&[0, 1], 1).run("refused", &[]);
}

/// Rails die one after the other under long messages: not one byte is wrong, and NCCL notices nothing.
#[test]
fn rails_that_are_cut_cost_no_byte() {
    const ROUNDS: u64 = 24;
    let world = World::new(&[0, 1], 3);
    let settings = [("RAIL_TEST_BYTES", format!("{}", 8 << 20)), ("RAIL_TEST_ROUNDS", format!("{ROUNDS}"))];
    let outputs = world.run_with("long", &settings, || {
        for (rail, round) in [(0, ROUNDS / 3), (1, 2 * ROUNDS / 3)] {
            // What went over it so far, before a round of which this rail has a part.
            if world.hub().get(&format!("round.{round}")).is_none() {
                return;
            }
            assert!(world.carried(rail) > 1 << 20, "rail {rail} carried nothing: there is nothing to be cut");
            world.cut(rail);
        }
    });
    expect_good(&outputs);
}

#[test]
fn a_rank_that_is_lost_is_named_to_those_who_wait_for_it() {
    let world = World::new(&[0, 1, 2], 2);
    let outputs = world.run_with("lost", &[], || {});
    assert!(!outputs[1].status.success(), "rank 1 ends itself");
    for rank in [0, 2] {
        assert!(outputs[rank].status.success(), "rank {rank}: {}", said(&outputs[rank]));
    }
}

/// A rank leaves with its last communicator, also where the rank that sent to it has ended without closing.
#[test]
fn a_closed_receiver_does_not_hold_a_rank() {
    let world = World::new(&[0, 1], 1);
    let outputs = world.run_with("ended", &[], || {
        assert!(world.hub().get("left").is_some(), "rank 1 has failed");
        roles::until("rank 1 to leave", || world.attached(1).is_empty().then_some(()));
        world.hub().put("seen", "yes");
    });
    expect_good(&outputs);
}

#[test]
fn without_a_job_the_cause_is_logged() {
    let mut plugin = plugin::Plugin::load(&world::library(), 12);
    // This process is no rank.
    assert_eq!(plugin.init(), Err(5));
    let lines = plugin::logged();
    let good = |(level, line): &(i32, String)| *level == 2 && line.contains("RAIL_ENGINE_SOCKET is not set");
    assert!(lines.iter().any(good), "{lines:?}");
    assert_eq!(plugin.devices(), Err(3));
}
