//! Kerberos names, rules and ids.

use zebu_security::sasl::principal::{KerberosName, NamePart, PrincipalError, PrincipalRules, is_sasl_id};

fn rules(text: &str) -> PrincipalRules {
    PrincipalRules::parse(text, Some("R"), NamePart::Keep, NamePart::Keep).unwrap()
}

#[test]
fn ids_with_and_without_host_and_realm() {
    use NamePart::{Keep, Remove};
    let table = [
        ("client@R", ["client@R", "client@R", "client", "client"]),
        ("svc/h1@R", ["svc/h1@R", "svc@R", "svc/h1", "svc"]),
        ("bob", ["bob", "bob", "bob", "bob"]),
    ];
    let switches = [(Keep, Keep), (Remove, Keep), (Keep, Remove), (Remove, Remove)];
    for (name, ids) in table {
        for ((host, realm), id) in switches.into_iter().zip(ids) {
            let rules = PrincipalRules::parse("DEFAULT", Some("R"), host, realm).unwrap();
            assert_eq!(rules.id_of(name).as_deref(), Ok(id), "{name} {host:?} {realm:?}");
        }
    }
}

#[test]
fn names_without_a_rule_have_no_id() {
    let default = rules("DEFAULT");
    for name in ["al@ice", "root@OTHER", "svc/h@OTHER"] {
        assert_eq!(default.id_of(name), Err(PrincipalError::NoRule), "{name}");
    }
    for name in ["a/b/c@R", "@R", "a@", "", "a@b@R", "/h@R", "a/@R"] {
        assert_eq!(default.id_of(name), Err(PrincipalError::Shape), "{name}");
        assert!(!is_sasl_id(name), "{name}");
    }
    let no_realm = PrincipalRules::parse("DEFAULT", None, NamePart::Keep, NamePart::Keep).unwrap();
    assert_eq!(no_realm.id_of("client@R"), Err(PrincipalError::NoRule));
    assert_eq!(no_realm.id_of("a/b").as_deref(), Ok("a/b"), "a name without realm is one component");
    assert_eq!(rules("").id_of("client@R"), Err(PrincipalError::NoRule));
}

fn short(text: &str, name: &str) -> Result<String, PrincipalError> {
    let rules = PrincipalRules::parse(text, Some("R"), NamePart::Remove, NamePart::Remove).unwrap();
    rules.id_of(name)
}

#[test]
fn rules_are_tried_in_order() {
    let text = "RULE:[1:$1@$0](.*@OTHER)s/@.*// RULE:[2:$1](admin)s/^.*$/chief/\n  DEFAULT";
    assert_eq!(short(text, "bob@OTHER").as_deref(), Ok("bob"));
    assert_eq!(short(text, "admin/h@ANY").as_deref(), Ok("chief"));
    assert_eq!(short(text, "bob@R").as_deref(), Ok("bob"));
    assert_eq!(short(text, "bob/h@OTHER"), Err(PrincipalError::NoRule));
    assert_eq!(short("RULE:[2:$1;$2](^a;.*)s/;/-/g", "a/b@R").as_deref(), Ok("a-b"));
    assert_eq!(short("RULE:[1:$1]", "bob@X").as_deref(), Ok("bob"));
    assert_eq!(short("RULE:[1:$1@$0]", "bob@X"), Err(PrincipalError::NotSimple));
    assert_eq!(short("RULE:[1:$1]s/.*//", "bob@X"), Err(PrincipalError::NotSimple));
    // The pattern must match the whole text.
    assert_eq!(short("RULE:[1:$1](bo)", "bob@X"), Err(PrincipalError::NoRule));
    assert_eq!(short("RULE:[1:$1]s/o/0/", "boo@X").as_deref(), Ok("b0o"));
    assert_eq!(short("RULE:[1:$1]s/o/0/g", "boo@X").as_deref(), Ok("b00"));
    assert_eq!(short("RULE:[1:$1]s/b(o)(.)/$2$1x\\$/", "boz@X").as_deref(), Ok("zox$"));
    assert_eq!(short("RULE:[1:$1]s/(b)/$12/", "b@X").as_deref(), Ok("b2"));
}

#[test]
fn malformed_rules_are_refused() {
    for text in [
        "default",
        "RULE:[1:$1",
        "RULE:[x:$1]",
        "RULE:[1$1]",
        "RULE:[1:$2]",
        "RULE:[1:$x]",
        "RULE:[1:$1](a",
        "RULE:[1:$1]([)",
        "RULE:[1:$1](?=a)b",
        "RULE:[1:$1]s/a/b",
        "RULE:[1:$1]s/a/$1/",
        "RULE:[1:$1]s/a/$/",
        "RULE:[1:$1]s/(a)\\1/b/",
        "DEFAULT junk",
    ] {
        let result = PrincipalRules::parse(text, Some("R"), NamePart::Keep, NamePart::Keep);
        assert!(result.is_err(), "{text}");
    }
    let error = PrincipalRules::parse("DEFAULT RULE:[1:$9]", None, NamePart::Keep, NamePart::Keep);
    assert!(error.unwrap_err().to_string().starts_with("rule 2 of auth_to_local"));
}

#[test]
fn names_are_written_as_they_were_read() {
    for text in ["a", "a@R", "a/b@R", "a/b"] {
        assert_eq!(KerberosName::parse(text).unwrap().to_string(), text);
    }
}
