//! What packages do when they come, change and go. Every script may run again, and where no systemd runs: in a chroot, or while an image is made.

use crate::description::{Package, Range, Service};

/// Scripts of a package of Debian, by their names in it.
pub(crate) fn debian(package: &Package) -> Vec<(&'static str, String)> {
    let Some(service) = &package.service else { return Vec::new() };
    let come = arrive(package, service);
    let configure = format!("{HEAD}if [ \"$1\" = configure ]; then\n{}fi\n", indented(&come));
    let restart = restart(service, "[ -n \"$2\" ]");
    let leave = format!("{HEAD}if [ \"$1\" = remove ]; then\n{}fi\n", indented(&stop(service)));
    let gone = format!("{HEAD}{RELOAD}if [ \"$1\" = purge ]; then\n{}fi\n", indented(&purge(service)));
    vec![
        ("postinst", configure.replace("RESTART\n", &indented(&restart))),
        ("prerm", leave),
        ("postrm", gone),
    ]
}

/// Scripts of an RPM: after it has come, before and after it goes. The state stays: RPM has no purge.
pub(crate) struct Rpm {
    pub after_install: String,
    pub before_removal: String,
    pub after_removal: String,
}

pub(crate) fn rpm(package: &Package) -> Option<Rpm> {
    let service = package.service.as_ref()?;
    let restart = restart(service, "[ \"$1\" -gt 1 ]");
    Some(Rpm {
        after_install: arrive(package, service).replace("RESTART\n", &restart),
        before_removal: format!("if [ \"$1\" -eq 0 ]; then\n{}fi\n", indented(&stop(service))),
        after_removal: RELOAD.to_owned(),
    })
}

const HEAD: &str = "#!/bin/sh\nset -e\n";
const RELOAD: &str = "if [ -d /run/systemd/system ]; then\n    systemctl daemon-reload || true\nfi\n";

/// Users, folders and ids; then, of an upgrade, what runs is started anew. Nothing is started that did not run: it has to be told where its
/// cluster is.
fn arrive(package: &Package, service: &Service) -> String {
    let mut text = String::new();
    if service.user.is_some() {
        text.push_str(&format!("systemd-sysusers {}.conf\n", package.name));
    }
    if let Some(tmpfiles) = service.tmpfiles {
        text.push_str(&format!("systemd-tmpfiles --create {tmpfiles} || true\n"));
    }
    if let Some(Range { owner, first, count }) = service.ids {
        text.push_str(&format!(
            "# Users of attempts: nobody else is given these ids.\nfor file in /etc/subuid /etc/subgid; do\n    \
             grep -qs '^{owner}:' $file || echo {owner}:{first}:{count} >> $file\ndone\n"
        ));
    }
    text.push_str("RESTART\n");
    text
}

fn restart(service: &Service, upgraded: &str) -> String {
    format!(
        "if [ -d /run/systemd/system ]; then\n    systemctl daemon-reload || true\n    \
         if {upgraded}; then\n        systemctl try-restart {} || true\n    fi\nfi\n",
        names(service, "*")
    )
}

/// Without a running systemd it takes away the links by which a unit starts with the machine.
fn stop(service: &Service) -> String {
    format!(
        "if [ -d /run/systemd/system ]; then\n    systemctl stop {} || true\nfi\n\
         if command -v systemctl > /dev/null; then\n    systemctl --no-reload --quiet disable {} || true\nfi\n",
        names(service, "*"),
        names(service, "")
    )
}

/// Jobs that still run write on into their state, so that taking it may fail, and keep their ids.
fn purge(service: &Service) -> String {
    let mut text = String::new();
    if let Some(state) = service.state {
        text.push_str(&format!("rm -rf {state} || true\n"));
    }
    if let Some(range) = service.ids {
        text.push_str(&free(range));
    }
    // A user of that name with another home was there before the package.
    if let (Some(user), Some(state)) = (service.user, service.state) {
        text.push_str(&format!(
            "if [ \"$(getent passwd {user} | cut -d: -f6)\" = {state} ] && command -v userdel > /dev/null; then\n    \
             userdel {user} || true\nfi\n"
        ));
    }
    text
}

/// Gives ids back, unless processes run as them: their next owner would own those too.
fn free(Range { owner, first, count }: Range) -> String {
    let last = first + count - 1;
    format!(
        "if cat /proc/[0-9]*/status 2> /dev/null |\n    \
         awk '$1 == \"Uid:\" && $2 >= {first} && $2 <= {last} {{ found = 1 }} END {{ exit !found }}'; then\n    \
         echo 'jobs run on: {owner}:{first}:{count} stays in /etc/subuid and /etc/subgid; take it out when they have ended' >&2\n\
         else\n    \
         for file in /etc/subuid /etc/subgid; do\n        \
         [ ! -e $file ] || sed -i '/^{owner}:{first}:{count}$/d' $file\n    \
         done\nfi\n"
    )
}

/// The units; a template stands for its instances with a star between, and for itself without.
fn names(service: &Service, instances: &str) -> String {
    let name = |unit: &&str| format!("'{}'", unit.replace("@.", &format!("@{instances}.")));
    service.units.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| if line == "RESTART" { "RESTART\n".to_owned() } else { format!("    {line}\n") })
        .collect()
}
