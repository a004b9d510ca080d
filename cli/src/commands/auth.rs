//! `auth can-i`: what the caller's role may call.

use proto_wire::v1;

use super::lookup::identity;
use crate::{
    args::{AuthCommand, CanI, TokenCommand},
    client::{Api, repeat},
    error::Error,
    output::print,
    render::{self, Behind, Kind},
};

/// A word of railctl, and the methods of the API that it needs.
type CommandVerb = (&'static str, &'static [&'static str]);

/// Words of railctl, by kind: which methods of the API they need.
const WORDS: [(&str, &[CommandVerb]); 21] = [
    (
        "job",
        &[
            ("submit", &["CreateJob"]),
            ("create", &["CreateJob"]),
            ("apply", &["CreateJob"]),
            ("plan", &["PlanJob"]),
            ("get", &["GetJob", "ListJobs"]),
            ("list", &["ListJobs"]),
            ("describe", &["GetJob"]),
            ("watch", &["WatchJobs"]),
            ("explain", &["ExplainJob"]),
            ("logs", &["StreamLogs"]),
            ("cancel", &["CancelJob"]),
            ("delete", &["DeleteJob"]),
            ("hold", &["HoldJob"]),
            ("release", &["ReleaseJob"]),
            ("suspend", &["SuspendJob"]),
            ("resume", &["ResumeJob"]),
            ("requeue", &["RequeueJob"]),
            ("update", &["UpdateJob"]),
            ("label", &["UpdateJob"]),
            ("run", &["RunStep"]),
            ("exec", &["RunStep"]),
            ("cp", &["RunStep"]),
            ("signal", &["RunStep"]),
            ("port-forward", &["RunStep"]),
            ("top", &["ListJobUsage"]),
        ],
    ),
    (
        "node",
        &[
            ("get", &["GetNode", "ListNodes"]),
            ("list", &["ListNodes"]),
            ("describe", &["GetNode"]),
            ("watch", &["WatchNodes"]),
            ("cordon", &["UpdateNode"]),
            ("uncordon", &["UpdateNode"]),
            ("drain", &["UpdateNode"]),
            ("undrain", &["UpdateNode"]),
            ("label", &["UpdateNode"]),
            ("taint", &["UpdateNode"]),
            ("update", &["UpdateNode"]),
            ("return", &["ReturnNode"]),
            ("delete", &["DeleteNode"]),
            ("top", &["ListNodeUsage"]),
            ("token", &["CreateJoinToken"]),
            ("create", &["CreateJoinToken"]),
        ],
    ),
    (
        "fabric",
        &[
            ("get", &["GetFabric"]),
            ("apply", &["ApplyFabric"]),
            ("delete", &["DeleteFabric"]),
            ("undelete", &["Undelete"]),
        ],
    ),
    ("topology", &[("get", &["GetTopology"]), ("show", &["GetTopology"])]),
    (
        "tenant",
        &[
            ("get", &["GetTenant", "ListTenants"]),
            ("list", &["ListTenants"]),
            ("describe", &["GetTenant"]),
            ("apply", &["ApplyTenant"]),
            ("create", &["ApplyTenant"]),
            ("edit", &["ApplyTenant"]),
            ("delete", &["DeleteTenant"]),
            ("undelete", &["Undelete"]),
        ],
    ),
    (
        "queue",
        &[
            ("get", &["GetQueue", "ListQueues"]),
            ("list", &["ListQueues"]),
            ("show", &["GetQueueOrder"]),
            ("apply", &["ApplyQueue"]),
            ("create", &["ApplyQueue"]),
            ("edit", &["ApplyQueue"]),
            ("delete", &["DeleteQueue"]),
        ],
    ),
    ("usage", &[("get", &["SumUsage"]), ("sum", &["SumUsage"]), ("list", &["ListUsageRecords"])]),
    (
        "reservation",
        &[
            ("get", &["GetReservation", "ListReservations"]),
            ("list", &["ListReservations"]),
            ("apply", &["ApplyReservation"]),
            ("create", &["ApplyReservation"]),
            ("delete", &["DeleteReservation"]),
        ],
    ),
    (
        "schedule",
        &[
            ("get", &["GetSchedule", "ListSchedules"]),
            ("list", &["ListSchedules"]),
            ("apply", &["ApplySchedule"]),
            ("create", &["ApplySchedule"]),
            ("delete", &["DeleteSchedule"]),
        ],
    ),
    (
        "serviceclass",
        &[
            ("get", &["GetServiceClass", "ListServiceClasses"]),
            ("list", &["ListServiceClasses"]),
            ("apply", &["ApplyServiceClass"]),
            ("create", &["ApplyServiceClass"]),
            ("delete", &["DeleteServiceClass"]),
        ],
    ),
    (
        "license",
        &[
            ("get", &["GetLicense", "ListLicenses"]),
            ("list", &["ListLicenses"]),
            ("apply", &["ApplyLicense"]),
            ("create", &["ApplyLicense"]),
            ("delete", &["DeleteLicense"]),
        ],
    ),
    (
        "switch",
        &[
            ("get", &["GetSwitch", "ListSwitches"]),
            ("list", &["ListSwitches"]),
            ("describe", &["GetSwitch"]),
            ("render", &["RenderSwitch"]),
            ("apply", &["ApplySwitch"]),
            ("create", &["ApplySwitch", "CreateSwitchToken"]),
            ("edit", &["ApplySwitch"]),
            ("delete", &["DeleteSwitch"]),
            ("plan", &["PlanSwitches"]),
            ("rollout", &["RollOutSwitches", "GetSwitchRollout", "ControlSwitchRollout"]),
        ],
    ),
    (
        "secret",
        &[
            ("get", &["GetSecret", "ListSecrets"]),
            ("list", &["ListSecrets"]),
            ("describe", &["GetSecret"]),
            ("apply", &["ApplySecret"]),
            ("create", &["ApplySecret"]),
            ("delete", &["DeleteSecret"]),
        ],
    ),
    (
        "config",
        &[
            ("get", &["GetConfig", "ListConfigs"]),
            ("list", &["ListConfigs"]),
            ("describe", &["GetConfig"]),
            ("apply", &["ApplyConfig"]),
            ("create", &["ApplyConfig"]),
            ("edit", &["ApplyConfig"]),
            ("delete", &["DeleteConfig"]),
        ],
    ),
    (
        "webhook",
        &[
            ("get", &["GetWebhook", "ListWebhooks"]),
            ("list", &["ListWebhooks"]),
            ("apply", &["ApplyWebhook"]),
            ("create", &["ApplyWebhook"]),
            ("delete", &["DeleteWebhook"]),
            ("test", &["TestWebhook"]),
        ],
    ),
    (
        "rail",
        &[
            ("get", &["ListRails"]),
            ("list", &["ListRails"]),
            ("drain", &["DrainRail"]),
            ("undrain", &["UndrainRail"]),
        ],
    ),
    (
        "qos",
        &[
            ("get", &["GetQos"]),
            ("show", &["GetQos"]),
            ("apply", &["ApplyQos"]),
            ("pause", &["ControlRollout"]),
            ("resume", &["ControlRollout"]),
            ("rollback", &["ControlRollout"]),
            ("cancel", &["ControlRollout"]),
            ("plan", &["PlanQos"]),
        ],
    ),
    ("share", &[("get", &["ListShares"]), ("list", &["ListShares"])]),
    (
        "token",
        &[
            ("create", &["IssueToken"]),
            ("issue", &["IssueToken"]),
            ("list", &["ListTokens"]),
            ("revoke", &["Revoke"]),
        ],
    ),
    (
        "certificate",
        &[("create", &["IssueCertificate"]), ("issue", &["IssueCertificate"]), ("revoke", &["Revoke"])],
    ),
    (
        "audit",
        &[
            ("list", &["ListAuditRecords"]),
            ("get", &["ListAuditRecords"]),
            ("export", &["ExportAuditRecords"]),
        ],
    ),
];

const TOKEN_COLUMNS: &[Behind] = &[Behind::ago("ISSUED", ".issued"), Behind::new("EXPIRES", ".expires")];

/// `token ls`: the tokens of the tenant's users.
///
/// # Errors
/// [`Error::Usage`] if the options contradict each other; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn tokens(command: &TokenCommand, api: &Api) -> Result<(), Error> {
    let TokenCommand::Ls(args) = command;
    render::check_list(args)?;
    let mut answer = repeat("list tokens", |_| {
        let mut client = api.tenants();
        let request = v1::ListTokensRequest { tenant: api.tenant.clone() };
        async move { client.list_tokens(request).await }
    })
    .await?;
    if answer.tokens.is_empty() && args.for_people() {
        eprintln!("no tokens");
    }
    let kind = Kind {
        message: "rail.v1.IssuedToken",
        name: &|one: &v1::IssuedToken| format!("token/{}", one.id),
        table: &|list, _| render::tokens(list),
        columns: TOKEN_COLUMNS,
        slurm: None,
    };
    print(&render::list(args, &kind, &mut answer)?)
}

/// `auth can-i`: whether the caller may make a call.
///
/// # Errors
/// [`Error::Usage`] if the verb or the kind is not known; [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Exited`]
/// with 1 if the caller may not.
pub async fn run(command: &AuthCommand, api: &Api) -> Result<(), Error> {
    let AuthCommand::CanI(args) = command;
    if args.list {
        return list(args, &identity(api).await?);
    }
    let verb = args.verb.as_deref().unwrap_or_default();
    let methods = methods(verb, args.kind.as_deref())?;
    let me = identity(api).await?;
    let denied: Vec<&str> = methods.iter().copied().filter(|method| !may(&me, method)).collect();
    if denied.is_empty() {
        print("yes\n")?;
        if me.role() == v1::Role::User && changes_a_job(&methods) {
            eprintln!("of jobs that you have submitted; other users' are theirs");
        }
        return Ok(());
    }
    print("no\n")?;
    eprintln!("the role {} may not call {}", render::role(me.role), denied.join(", "));
    Err(Error::Exited(1))
}

fn list(args: &CanI, me: &v1::WhoAmIResponse) -> Result<(), Error> {
    let names = || me.may_call.iter().map(|path| method(path).to_owned()).collect::<Vec<_>>();
    let table = |_| names().iter().map(|name| format!("{name}\n")).collect::<String>();
    print(&render::render(args.output, me, "rail.v1.WhoAmIResponse", names, table)?)
}

fn method(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn may(me: &v1::WhoAmIResponse, name: &str) -> bool {
    me.may_call.iter().any(|path| method(path) == name)
}

/// Whether more than the role decides: whose job it is.
fn changes_a_job(methods: &[&str]) -> bool {
    const OWN: [&str; 9] = [
        "CancelJob",
        "DeleteJob",
        "HoldJob",
        "ReleaseJob",
        "SuspendJob",
        "ResumeJob",
        "RequeueJob",
        "UpdateJob",
        "RunStep",
    ];
    methods.iter().any(|method| OWN.contains(method))
}

/// What a word needs: of a kind, or a method's own name.
fn methods(verb: &str, kind: Option<&str>) -> Result<Vec<&'static str>, Error> {
    let Some(kind) = kind else {
        let all = WORDS.iter().flat_map(|(_, words)| words.iter()).flat_map(|(_, methods)| methods.iter());
        let named: Vec<&'static str> =
            all.copied().filter(|method| method.eq_ignore_ascii_case(verb)).take(1).collect();
        if named.is_empty() {
            let text = format!("`{verb}` of what? Write for example `railctl auth can-i {verb} jobs`");
            return Err(Error::Usage(text));
        }
        return Ok(named);
    };
    let (kind, _) = kind.split_once('/').unwrap_or((kind, ""));
    let bare: String =
        kind.to_ascii_lowercase().chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
    let singular = |name: &str| match name {
        _ if bare == name => true,
        _ => bare.strip_prefix(name).is_some_and(|rest| rest == "s" || rest == "es"),
    };
    let kinds = || WORDS.iter().map(|(name, _)| *name);
    let words = WORDS.iter().find(|(name, _)| singular(name)).map(|(_, words)| *words).ok_or_else(|| {
        Error::Usage(format!("`{kind}` is no kind; did you mean {}?", nearest(&bare, kinds())))
    })?;
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(verb));
    let found = found.map(|(_, methods)| methods.to_vec());
    found.ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Error::Usage(format!("`{verb}` is not done to a {kind}; there are {}", known.join(", ")))
    })
}

fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    names.min_by_key(|name| strsim::damerau_levenshtein(name, text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_methods_of_the_api() {
        let declared: Vec<String> = proto_wire::descriptor_pool()
            .services()
            .flat_map(|service| service.methods().map(|method| method.name().to_owned()).collect::<Vec<_>>())
            .collect();
        for method in WORDS.iter().flat_map(|(_, words)| words.iter()).flat_map(|(_, methods)| methods.iter())
        {
            assert!(declared.iter().any(|name| name == method), "{method}");
        }
        // What nobody is named for, what everybody may, and what answers another command beside.
        let others = ["WhoAmI", "GetHealth", "ListRevocations", "ListDeleted", "PlanDocuments"];
        let agents = ["AgentService", "EnrollService", "ControllerService", "SwitchAgentService"];
        let people = proto_wire::descriptor_pool();
        let people = people.services().filter(|service| !agents.contains(&service.name()));
        for method in people.flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let mut words = WORDS.iter().flat_map(|(_, words)| words.iter());
            let named = words.any(|(_, methods)| methods.contains(&method.name()));
            assert!(named || others.contains(&method.name()), "{} has no word", method.name());
        }
        assert_eq!(methods("submit", Some("jobs")).unwrap(), ["CreateJob"]);
        assert_eq!(methods("delete", Some("service-classes")).unwrap(), ["DeleteServiceClass"]);
        assert_eq!(methods("createjob", None).unwrap(), ["CreateJob"]);
        assert!(methods("delete", Some("jbos")).unwrap_err().to_string().contains("did you mean job"));
        assert!(methods("fly", Some("jobs")).unwrap_err().to_string().contains("submit"));
        assert!(methods("delete", None).unwrap_err().to_string().contains("delete jobs"));
    }
}
