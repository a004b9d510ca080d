//! System calls that a job's program is refused, and why.
//!
//! A list of what is refused, not of what is permitted: programs of tenants are of every kind (PyTorch, NCCL, MPI, debuggers, JITs), and
//! what the kernel guards by capabilities is guarded by their absence. The list is for what needs none, or is old and large and of no
//! use to a job. Answers are EPERM, but for `clone3`, whose flags no filter can read: with ENOSYS the C library takes `clone`.
//! Calls of another architecture's ABI (32-bit programs) end the program.
//!
//! | calls | why |
//! |---|---|
//! | `mount` `umount2` `pivot_root` `chroot` `move_mount` `open_tree` `open_tree_attr` `mount_setattr` `fsopen` `fsconfig` `fsmount` `fspick` | files as the attempt sees them are the agent's to arrange |
//! | `unshare` `setns` `clone` with namespace flags, `clone3` (ENOSYS) | in a user namespace of its own a program has every capability, and with them the kernel's least tried code |
//! | `add_key` `request_key` `keyctl` | keyrings of a user are not kept apart by namespaces |
//! | `bpf` `perf_event_open` `userfaultfd` | see or delay the kernel; no use to a job |
//! | `io_uring_setup` `io_uring_enter` `io_uring_register` | calls in a ring pass by this list |
//! | `open_by_handle_at` | opens files past the folders above them |
//! | `kexec_load` `kexec_file_load` `reboot` `swapon` `swapoff` `acct` `quotactl` `quotactl_fd` `syslog` `vhangup` | the server's operation |
//! | `init_module` `finit_module` `delete_module` | code in the kernel |
//! | `settimeofday` `clock_settime` `clock_adjtime` `sethostname` `setdomainname` | the server's clock and name |
//! | `fanotify_init` `lookup_dcookie` `iopl` `ioperm` `uselib` `ustat` `sysfs` `nfsservctl` | old or privileged |
//! | `socket` of families RDS, SMC, IB, XDP, ALG, VSOCK, KEY | a NIC's RDMA, or the kernel's crypto, on a program's behalf: never a NIC for a rank |
//!
//! Permitted on purpose: `ptrace` and `process_vm_readv` (debuggers, CMA of MPI and UCX; the PID namespace and the uid bound them),
//! `pidfd_getfd` (PyTorch's memory segments), `mbind` and `move_pages` (NUMA), `memfd_create`, `personality`.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};
use thiserror::Error;

/// The filter cannot be made or is not taken.
#[derive(Debug, Error)]
pub enum SeccompError {
    /// This processor's calls are not known.
    #[error("no list of system calls for {}", std::env::consts::ARCH)]
    Architecture,
    /// The filter is not well formed.
    #[error("the list of system calls cannot be compiled: {0}")]
    Compile(#[from] seccompiler::BackendError),
    /// The kernel refused it.
    #[error("the list of system calls is not taken: {0}")]
    Apply(#[from] seccompiler::Error),
}

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
/// Flags of `clone` that make a namespace: mount, cgroup, UTS, IPC, user, PID, network.
const CLONE_NEW: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// Address families: KEY, RDS, IB, ALG, VSOCK, SMC, XDP.
const FAMILIES: [u64; 7] = [15, 21, 27, 38, 40, 43, 44];
/// On x86-64 each call has a second number, of the x32 ABI, with this bit.
const X32: i64 = 0x4000_0000;
/// Younger than the C library's table.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Refused whatever their arguments are.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
];
/// The same of calls that only x86-64 has.
#[cfg(target_arch = "x86_64")]
const OLD: &[libc::c_long] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_uselib, libc::SYS_ustat, libc::SYS_sysfs];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[libc::c_long] = &[];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn has_bits(argument: u8, bits: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let operator = SeccompCmpOp::MaskedEq(bits);
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, bits)?])
}

fn is(argument: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let operator = SeccompCmpOp::Eq;
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?])
}

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().chain(OLD).map(|call| (*call, Vec::new())).collect();
    let spaces = CLONE_NEW.map(|flag| has_bits(0, u64::from(flag.cast_unsigned())));
    rules.insert(libc::SYS_clone, spaces.into_iter().collect::<Result<_, _>>()?);
    rules.insert(
        libc::SYS_socket,
        FAMILIES.map(|family| is(0, family)).into_iter().collect::<Result<_, _>>()?,
    );
    Ok(rules)
}

/// The same rules for the second numbers, where there are some.
fn everywhere(rules: Rules) -> Rules {
    let second: Rules = match cfg!(target_arch = "x86_64") {
        true => rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect(),
        false => Rules::new(),
    };
    rules.into_iter().chain(second).collect()
}

fn compile(rules: Rules, answer: u32) -> Result<BpfProgram, SeccompError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(|_| SeccompError::Architecture)?;
    let filter =
        SeccompFilter::new(everywhere(rules), SeccompAction::Allow, SeccompAction::Errno(answer), arch)?;
    Ok(filter.try_into()?)
}

/// Refuses the calls of this list to this thread and whatever it becomes, for good.
///
/// # Errors
/// No such list for this processor, or the kernel does not take it.
pub fn refuse() -> Result<(), SeccompError> {
    let absent = compile([(libc::SYS_clone3, Vec::new())].into(), ENOSYS)?;
    let refused = compile(rules()?, EPERM)?;
    apply_filter(&absent)?;
    Ok(apply_filter(&refused)?)
}

/// True if lists for this processor can be made; whether the kernel takes them shows when it is asked.
///
/// # Errors
/// What is wrong with them.
pub fn check() -> Result<(), SeccompError> {
    compile(rules()?, EPERM).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_compiles_and_names_each_call_once_more_for_its_second_number() {
        check().unwrap();
        let all = everywhere(rules().unwrap());
        assert!(all.contains_key(&libc::SYS_mount));
        #[cfg(target_arch = "x86_64")]
        assert!(all.contains_key(&(libc::SYS_mount | X32)) && all.len() == 2 * rules().unwrap().len());
    }
}
