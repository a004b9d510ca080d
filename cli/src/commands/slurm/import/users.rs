//! Users become identities: the credentials that `commands.sh` issues, and what each of them may do.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    fate::Fate,
    ledger::Ledger,
    site::{Site, Thing, User},
    tenants::{Tenants, unused, within},
    values,
};

/// Settings of a user's association for which there is nothing here.
const UNUSED: [&str; 5] = ["fairshare", "grptres", "grpsubmitjobs", "description", "organization"];
/// Why.
const NO_USERS: &str = "users have none of their own: tenants and queues have weights and quotas, service classes limit each user";

/// What a user may do beyond the jobs of an account, as all lines of this user say it.
#[derive(Debug, Default)]
struct Rights {
    is_administrator: bool,
    /// Accounts that the user manages.
    manages: BTreeSet<String>,
}

/// Says what becomes of each user; the commands that issue their credentials, in the order of the dump, each once.
pub fn make(site: &Site, tenants: &Tenants, ledger: &mut Ledger) -> Vec<String> {
    let rights = rights(site);
    let (mut commands, mut seen) = (Vec::new(), BTreeSet::new());
    for user in &site.users {
        let name = &user.of.name;
        unused(&user.of, &UNUSED, NO_USERS, ledger);
        level(&user.of, ledger);
        coordinator(site, tenants, user, ledger);
        let made = rights.get(name.as_str()).map(|rights| credentials(site, tenants, user, rights, ledger));
        let made = made.unwrap_or_default();
        if !is_user(name) {
            ledger.settle(user.of.id, Fate::Lost, "names of users are letters, digits and . _ -");
            continue;
        }
        if made.is_empty() {
            let here =
                "no credential: only with AdminLevel=Administrator has a user of no other account one here";
            ledger.settle(user.of.id, Fate::Lost, here);
        }
        for command in made {
            ledger.settle(user.of.id, Fate::Differs, format!("an identity: {command}"));
            if seen.insert(command.clone()) {
                commands.push(command);
            }
        }
    }
    commands
}

/// What each user may do.
fn rights(site: &Site) -> BTreeMap<&str, Rights> {
    let mut all: BTreeMap<&str, Rights> = BTreeMap::new();
    for user in &site.users {
        let rights = all.entry(user.of.name.as_str()).or_default();
        rights.is_administrator |= user.of.text("adminlevel").eq_ignore_ascii_case("Administrator");
        rights.manages.extend(values::list(user.of.text("coordinator")).map(str::to_ascii_lowercase));
    }
    all
}

/// The credentials of a user by one line of the dump: each tenant has a folder of its own, since users of the same name may be in several.
fn credentials(
    site: &Site,
    tenants: &Tenants,
    user: &User,
    rights: &Rights,
    ledger: &mut Ledger,
) -> Vec<String> {
    let name = &user.of.name;
    let mut made = Vec::new();
    if rights.is_administrator {
        made.push(format!("railctl tenant issue-cert {name} --role admin --out credentials/administrators"));
    }
    match tenants.spots.get(&user.account) {
        Some(spot) => {
            let (tenant, role) = (&spot.tenant, role(site, tenants, &spot.tenant, rights));
            made.push(format!(
                "railctl --tenant {tenant} tenant issue-cert {name} --role {role} --out credentials/tenants/{tenant}"
            ));
        }
        // One of no account of the dump is an error already.
        None if user.account == "root" || site.account(&user.account).is_none() => {}
        None => {
            let why = format!("the account `{}` of this user is within none at the top", user.account);
            ledger.wrong(&user.of.head, why);
        }
    }
    made
}

/// tenant-admin where the user manages the tenant's account, or one that it is within.
fn role(site: &Site, tenants: &Tenants, tenant: &str, rights: &Rights) -> &'static str {
    let account = tenants.all.iter().find(|one| one.name == tenant).map_or("", |one| one.account.as_str());
    let manages = site.line(account).iter().any(|above| rights.manages.contains(&above.of.name));
    if manages { "tenant-admin" } else { "user" }
}

/// Says what becomes of the level of an administrator.
fn level(user: &Thing, ledger: &mut Ledger) {
    let Some((id, token)) = user.get("adminlevel") else { return };
    match token.value.to_ascii_lowercase().as_str() {
        "administrator" => ledger.settle(id, Fate::Differs, "a credential of role admin"),
        "" | "none" | "not set" => ledger.settle(id, Fate::Meaningless, "no rights beyond those of all"),
        _ => ledger.settle(id, Fate::Lost, "no role has these rights: admin is for Administrator alone"),
    }
}

/// Says of which tenants a user that manages accounts is tenant-admin.
fn coordinator(site: &Site, tenants: &Tenants, user: &User, ledger: &mut Ledger) {
    let Some((id, token)) = user.of.get("coordinator") else { return };
    let own = site.users.iter().filter(|one| one.of.name == user.of.name);
    let own: BTreeSet<&str> =
        own.filter_map(|one| tenants.spots.get(&one.account)).map(|spot| spot.tenant.as_str()).collect();
    for account in values::list(&token.value) {
        let within = within(site, tenants, &account.to_ascii_lowercase());
        let (is, lost): (Vec<&str>, Vec<&str>) =
            within.whole.iter().map(String::as_str).partition(|tenant| own.contains(tenant));
        if !is.is_empty() {
            ledger.settle(id, Fate::Differs, format!("tenant-admin of {}", is.join(", ")));
        }
        if !lost.is_empty() {
            let here =
                format!("of {} no tenant-admin: the user is in none of their accounts", lost.join(", "));
            ledger.settle(id, Fate::Differs, here);
        }
        if within.whole.is_empty() {
            let here = format!("`{account}` is no tenant as a whole: of role user there");
            ledger.settle(id, Fate::Differs, here);
        }
    }
}

/// Whether somebody may be called so.
pub fn is_user(name: &str) -> bool {
    const LONGEST: usize = 128;
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= LONGEST
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}
