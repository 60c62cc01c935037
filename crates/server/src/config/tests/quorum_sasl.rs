//! SASL between servers: the rules between the keys, and the logins.

use super::*;
use crate::config::security::quorum_sasl::{QuorumLogins, QuorumSaslConfig};

const JAAS: &str = "QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_a=\"pw\"; };\n\
                    QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username=\"a\" \
                    password=\"pw\"; };\n";

const ALL: &str = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n\
                   quorum.auth.serverRequireSasl=true\nfips-mode=false\n";

fn with_login(lines: &str, jaas: &str) -> ConfigCase {
    with_base(lines).other_file("/jaas.conf", jaas).word("java.security.auth.login.config=/jaas.conf")
}

fn errors(case: &ConfigCase) -> Vec<String> {
    texts(&case.load().diagnostics.errors)
}

#[test]
fn all_steps_of_the_rolling_change_are_configurations() {
    for (lines, dialer, required) in [
        ("quorum.auth.enableSasl=true\nfips-mode=false\n", false, false),
        ("quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nfips-mode=false\n", true, false),
        (ALL, true, true),
    ] {
        let case = with_login(lines, JAAS);
        let QuorumSaslConfig::On(sasl) = case.config().security.quorum_sasl else { panic!("{lines}") };
        assert_eq!((sasl.dialer_authenticates, sasl.required), (dialer, required));
        let QuorumLogins::Digest(logins) = &*sasl.logins else { panic!("{lines}") };
        assert_eq!((logins.user.as_str(), logins.password.reveal()), ("a", "pw"));
        assert_eq!(logins.users.names().collect::<Vec<_>>(), ["a"]);
    }
    assert_eq!(with_base("").config().security.quorum_sasl, QuorumSaslConfig::Off);
    // The login of clients alone changes nothing between servers.
    assert_eq!(with_login("", "").config().security.quorum_sasl, QuorumSaslConfig::Off);
}

#[test]
fn a_demand_needs_what_it_builds_on() {
    for (lines, expected) in [
        (
            "quorum.auth.serverRequireSasl=true\nquorum.auth.learnerRequireSasl=true\n",
            &[
                "zoo.cfg:4: quorum.auth.enableSasl is disabled, so cannot enable quorum.auth.serverRequireSasl; set \
                 quorum.auth.enableSasl=true",
                "zoo.cfg:5: quorum.auth.enableSasl is disabled, so cannot enable quorum.auth.learnerRequireSasl; set \
                 quorum.auth.enableSasl=true",
            ][..],
        ),
        (
            "quorum.auth.enableSasl=true\nquorum.auth.serverRequireSasl=true\nfips-mode=false\n",
            &["zoo.cfg:5: quorum.auth.learnerRequireSasl is disabled, so cannot enable \
               quorum.auth.serverRequireSasl; set quorum.auth.learnerRequireSasl=true"],
        ),
        (
            "quorum.auth.enableSasl=yes\n",
            &["zoo.cfg:4: quorum.auth.enableSasl = \"yes\" is not valid; allowed: true or false"],
        ),
    ] {
        assert_eq!(errors(&with_login(lines, JAAS)), expected);
    }
}

#[test]
fn a_login_that_cannot_be_made_refuses_the_start() {
    let digest = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let kerberos = "com.sun.security.auth.module.Krb5LoginModule required";
    for (jaas, expected) in [
        (
            format!("QuorumServer {{ {digest} user_a=\"pw\"; }};"),
            "JAAS configuration section 'QuorumLearner' could not be found. /jaas.conf has these sections: QuorumServer",
        ),
        (
            String::new(),
            "JAAS configuration section 'QuorumServer' could not be found. /jaas.conf has these sections: none",
        ),
        (
            JAAS.replace(digest, kerberos),
            match zebu_kerberos::IS_BUILT_IN {
                true => "option principal is missing",
                false => "section QuorumServer is a Kerberos login, and this build has no GSSAPI",
            },
        ),
        (
            JAAS.replacen(digest, kerberos, 1),
            match zebu_kerberos::IS_BUILT_IN {
                true => "QuorumServer and QuorumLearner need login modules of one kind",
                false => "build Zebu with --features kerberos",
            },
        ),
        (JAAS.replace(digest, "com.example.Login required"), "login module com.example.Login is unknown"),
        (JAAS.replace("user_a=\"pw\"", ""), "section QuorumServer names no user"),
        (JAAS.replace("username=\"a\"", ""), "section QuorumLearner has no username"),
        ("QuorumServer {".to_owned(), "/jaas.conf:1: "),
    ] {
        let found = errors(&with_login(ALL, &jaas));
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?} is not {expected}");
        assert!(!found[0].contains("pw"), "{found:?}");
    }
    let unreadable = with_base(ALL).word("java.security.auth.login.config=/none");
    assert!(errors(&unreadable)[0].contains("/none cannot be read"));
    let none = with_base(ALL);
    assert!(errors(&none)[0].contains("quorum.auth.enableSasl=true needs a JAAS file"));
}

#[test]
fn kerberos_logins() {
    if !zebu_kerberos::IS_BUILT_IN {
        return;
    }
    let jaas = |server: &str, learner: &str| {
        let module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true";
        format!(
            "QuorumServer {{ {module} keyTab=\"/a\" principal=\"{server}\"; }};\n\
             QuorumLearner {{ {module} keyTab=\"FILE:/b\" principal=\"{learner}\"; }};"
        )
    };
    let lines = format!("{ALL}quorum.auth.kerberos.servicePrincipal=zk/_HOST\n");
    let security = with_login(&lines, &jaas("zk/h@R", "zk/h@R")).config().security;
    let QuorumSaslConfig::On(sasl) = &security.quorum_sasl else { panic!() };
    let QuorumLogins::Kerberos(logins) = &*sasl.logins else { panic!() };
    assert_eq!(logins.service_principal, "zk/_HOST");
    assert_eq!((logins.acceptor.realm.as_str(), logins.dialer.principal.as_deref()), ("R", Some("zk/h@R")));
    let missing = security.kerberos.unwrap().missing(|_| None);
    let variables: Vec<(&str, &str)> =
        missing.iter().map(|(name, value)| (*name, value.to_str().unwrap())).collect();
    let expected =
        [("KRB5_KTNAME", "FILE:/a"), ("KRB5_CLIENT_KTNAME", "FILE:/b"), ("KRB5CCNAME", "MEMORY:zebu")];
    assert_eq!(variables, expected);

    let two = format!(
        "{}\nServer {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=\"/c\" \
         principal=\"zk/h@R\"; }};",
        jaas("zk/h@R", "zk/h@R")
    );
    assert!(errors(&with_login(ALL, &two))[0].contains("two keytabs, /c and /a"));
    let lines = format!("{ALL}quorum.auth.kerberos.servicePrincipal=zk\n");
    assert!(errors(&with_login(&lines, &jaas("zk/h@R", "a")))[0].contains("is not of the form service/host"));
}

#[test]
fn names_of_files_and_sections() {
    let lines = format!(
        "{ALL}quorum.auth.server.saslLoginContext=In\nquorum.auth.learner.saslLoginContext=Out\n\
         java.security.auth.login.config==file:/other.conf\n"
    );
    let jaas = JAAS.replace("QuorumServer", "In").replace("QuorumLearner", "Out");
    let case = with_base(&lines).other_file("/other.conf", &jaas);
    assert!(matches!(case.config().security.quorum_sasl, QuorumSaslConfig::On(_)));
}

#[test]
fn fips_forbids_the_mechanism() {
    let strict = ALL.replace("fips-mode=false", "fips-mode=true");
    assert_eq!(
        errors(&with_login(&strict, JAAS)),
        [
            "zoo.cfg:7: fips-mode=true forbids DIGEST-MD5; set fips-mode=false, or quorum.auth.enableSasl=false"
        ]
    );
    let unset = with_login(&ALL.replace("fips-mode=false\n", ""), JAAS).load();
    assert!(
        texts(&unset.diagnostics.warnings).iter().any(|text| text.contains("DIGEST-MD5 is used although"))
    );
    assert!(unset.config.is_some());
}
