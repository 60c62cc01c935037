//! SASL for clients and the providers of schemes, from whole configurations.

use zebu_security::sasl::principal::PrincipalError;

use super::*;
use crate::config::security::client_sasl::ClientLogin;

const SASL_PROVIDER: &str = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n";
const JAAS: &str = "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  \
                    user_super=\"adminsecret\"\n  user_bob=\"${bob.password}\";\n};\n";

fn with_jaas(lines: &str, jaas: &str) -> ConfigCase {
    with_base(lines)
        .other_file("/jaas.conf", jaas)
        .word("java.security.auth.login.config=/jaas.conf")
        .word("bob.password=bobsecret")
}

fn user_names(config: &ServerConfig) -> Vec<String> {
    match &config.security.client_sasl.login {
        Some(ClientLogin::Digest(login)) => login.users.names().map(str::to_owned).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_digest_login_with_every_key() {
    let case = with_jaas(
        &format!(
            "{SASL_PROVIDER}superUser=super\nsuperUser.2=svc/h@R\nallowSaslFailedClients=true\nfips-mode=false\n\
             letAnySaslUserDoX=anyone\nkerberos.removeRealmFromPrincipal=true\n\
             security.auth_to_local=RULE:[1:$1]\nSASLAuthenticationProvider.superPassword=other\n\
             sessionRequireClientSASLAuth=true\n"
        ),
        JAAS,
    );
    case.warnings(&[
        "zoo.cfg:7: allowSaslFailedClients=true: clients stay connected after a failed SASL exchange",
    ]);
    let config = case.config();
    let sasl = &config.security.client_sasl;
    assert_eq!(user_names(&config), ["bob", "super"]);
    assert_eq!(sasl.super_users, ["super", "svc/h@R"]);
    assert!(sasl.allow_failed_clients && sasl.providers.sasl);
    assert_eq!(sasl.any_user_id.as_deref(), Some("anyone"));
    assert_eq!(sasl.rules.id_of("al@ice"), Ok("al".to_owned()));
    assert_eq!(config.auth.required_schemes, Some(vec!["sasl".to_owned()]));
    let text = format!("{config:?}");
    for secret in ["adminsecret", "bobsecret", "other"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn the_users_are_read_again_with_the_same_properties() {
    let config = with_jaas(&format!("{SASL_PROVIDER}fips-mode=false\n"), JAAS).config();
    let Some(ClientLogin::Digest(login)) = &config.security.client_sasl.login else { panic!() };
    assert_eq!(login.read_users(JAAS.as_bytes()).as_ref(), Ok(&login.users));
    let other = JAAS.replace("user_bob", "user_eve");
    assert_ne!(login.read_users(other.as_bytes()).as_ref(), Ok(&login.users));
    let broken = login.read_users(&JAAS.as_bytes()[..JAAS.len() - 4]).unwrap_err();
    assert_eq!(broken, "line 4: the class of a login module is expected, but the file ends");
    assert_eq!(login.read_users(b"Other { };").unwrap_err(), "section Server is missing");
}

#[test]
fn fips_mode_decides_about_digest_md5() {
    let unset = with_jaas(SASL_PROVIDER, JAAS);
    unset.warnings(&[
        "command line: SASL uses DIGEST-MD5, which is weak; ZooKeeper 3.9.6 refuses it unless fips-mode=false, and so \
         do Java clients since 3.9.4",
    ]);
    assert_eq!(user_names(&unset.config()).len(), 2);
    let on = with_jaas(&format!("{SASL_PROVIDER}fips-mode=true\n"), JAAS);
    on.warnings(&[
        "zoo.cfg:5: fips-mode=true: the cryptography of this server has no FIPS 140 certificate",
        "zoo.cfg:5: fips-mode=true: DIGEST-MD5 is refused, clients cannot use SASL",
    ]);
    assert_eq!(on.config().security.client_sasl.login, None);
}

#[test]
fn files_that_stop_the_start() {
    let line = |jaas: &str, expected: &str| {
        with_jaas(&format!("{SASL_PROVIDER}fips-mode=false\n"), jaas).errors(&[expected]);
    };
    line("Server {\n  x.Y required\n", "/jaas.conf:3: an option or ; is expected, but the file ends");
    line(
        "Server {\n\n  x.Y required;\n};\n",
        "/jaas.conf:3: login module x.Y is unknown; use org.apache.zookeeper.server.auth.DigestLoginModule or \
         Krb5LoginModule",
    );
    line(
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_a=\"${nosuch}\";\n};",
        "/jaas.conf:3: option user_a: property nosuch is not set",
    );
    with_base("java.security.auth.login.config=/none\n")
        .errors(&["zoo.cfg:4: java.security.auth.login.config: /none cannot be read: entity not found"]);
    with_base("sasl.serverconfig=Other\n").errors(&[
        "zoo.cfg:4: sasl.serverconfig names section Other, but java.security.auth.login.config names no file",
    ]);
}

#[test]
fn a_missing_section_is_reported() {
    with_jaas("sasl.serverconfig=Other\n", JAAS)
        .warnings(&["command line: /jaas.conf has no section Other: clients cannot use SASL"]);
    let quorum = JAAS.replace("Server {", "QuorumServer {");
    let case = with_jaas("", &quorum);
    case.warnings(&[]);
    assert_eq!(case.config().security.client_sasl.login, None);
    with_jaas("", "").warnings(&["command line: /jaas.conf has no section Server: clients cannot use SASL"]);
}

#[test]
fn a_kerberos_login_needs_a_build_with_gssapi() {
    let no_gssapi = "command line: section Server is a Kerberos login, and this build has no GSSAPI; build Zebu \
                     with --features kerberos, or use org.apache.zookeeper.server.auth.DigestLoginModule";
    let all = |error: Option<&'static str>| -> Vec<&'static str> {
        error.into_iter().chain((!zebu_kerberos::IS_BUILT_IN).then_some(no_gssapi)).collect()
    };
    let jaas = |options: &str| {
        format!("Server {{\n com.sun.security.auth.module.Krb5LoginModule required\n {options};\n}};")
    };
    let keys = "useKeyTab=true keyTab=\"/etc/zk.keytab\" storeKey=true";
    for (options, error) in [
        (format!("principal=\"zk/h@R\" {keys}"), None),
        (
            format!("principal=\"zk@R\" {keys}"),
            Some("/jaas.conf:2: principal \"zk@R\" is not of the form service/host@REALM"),
        ),
        (
            format!("principal=\"zk/h\" {keys}"),
            Some("/jaas.conf:2: principal \"zk/h\" is not of the form service/host@REALM"),
        ),
        (keys.to_owned(), Some("/jaas.conf:2: option principal is missing")),
        (
            "principal=\"zk/h@R\"".to_owned(),
            Some("/jaas.conf:2: an accepting server needs its keys; add useKeyTab=true and keyTab=\"FILE\""),
        ),
    ] {
        with_jaas("java.security.krb5.conf=/none\n", &jaas(&options)).errors(&all(error));
    }
}

#[test]
fn a_kerberos_login_names_the_files_of_the_library() {
    if !zebu_kerberos::IS_BUILT_IN {
        return;
    }
    let jaas = "Server { com.sun.security.auth.module.Krb5LoginModule required principal=\"zk/h\" \
                useKeyTab=true keyTab=\"/etc/zk.keytab\"; };";
    let case = with_jaas("java.security.krb5.conf=/krb5.conf\n", jaas)
        .other_file("/krb5.conf", "[libdefaults]\n default_realm = R\n");
    let security = case.config().security;
    let Some(ClientLogin::Kerberos(acceptor)) = &security.client_sasl.login else { panic!() };
    assert_eq!((acceptor.principal.as_str(), acceptor.realm.as_str()), ("zk/h@R", "R"));
    let files = security.kerberos.unwrap();
    let names: Vec<&str> = files.missing(|_| None).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["KRB5_CONFIG", "KRB5_KTNAME"]);
    // The variable of the library counts where no property is set.
    let case = with_jaas("", jaas)
        .variable("KRB5_CONFIG", "/none:/other.conf")
        .other_file("/other.conf", "[libdefaults]\n default_realm = S\n");
    let Some(ClientLogin::Kerberos(acceptor)) = case.config().security.client_sasl.login else { panic!() };
    assert_eq!(acceptor.realm, "S");
}

#[test]
fn providers_by_class() {
    let package = "org.apache.zookeeper.server.auth";
    let case = with_base(&format!(
        "authProvider.a={package}.X509AuthenticationProvider\n\
         authProvider.2={package}.EnsembleAuthenticationProvider\nensembleAuthName=east, west\n\
         authProvider.3={package}.IPAuthenticationProvider\n"
    ));
    case.clean();
    let sasl = case.config().security.client_sasl;
    assert!(sasl.providers.x509 && sasl.providers.ensemble && !sasl.providers.sasl);
    assert_eq!(sasl.ensemble_names, Some(vec!["east".to_owned(), "west".to_owned()]));
    let known = "this class does not exist here; known in org.apache.zookeeper.server.auth.*: \
                 DigestAuthenticationProvider, IPAuthenticationProvider, SASLAuthenticationProvider, \
                 X509AuthenticationProvider, EnsembleAuthenticationProvider";
    with_base(&format!(
        "authProvider.1=com.example.Mine\nauthProvider.2={package}.KeyAuthenticationProvider\n"
    ))
    .errors(&[
        &format!("zoo.cfg:4: authProvider.1 = \"com.example.Mine\": {known}"),
        &format!("zoo.cfg:5: authProvider.2 = \"{package}.KeyAuthenticationProvider\": {known}"),
    ]);
    with_base("ensembleAuthName=east\n").errors(&["zoo.cfg:4: ensembleAuthName has no effect without \
         authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"]);
    with_base("sessionRequireClientSASLAuth=true\n").errors(&[
        "zoo.cfg:4: sessionRequireClientSASLAuth requires authentication scheme sasl, which is not available; \
         available: ip, digest. Register its class with authProvider.1",
    ]);
    with_base("sessionRequireClientSASLAuth=yes\n")
        .errors(&["zoo.cfg:4: sessionRequireClientSASLAuth = \"yes\" is not valid; allowed: true or false"]);
}

#[test]
fn rules_use_the_default_realm() {
    let krb5 = "[libdefaults]\n default_realm = ZEBU.TEST\n";
    let case = with_jaas("fips-mode=false\n", JAAS)
        .other_file("/krb5.conf", krb5)
        .word("java.security.krb5.conf=/krb5.conf")
        .word("zookeeper.requireKerberosConfig=true");
    let rules = case.config().security.client_sasl.rules;
    assert_eq!(rules.id_of("client@ZEBU.TEST"), Ok("client@ZEBU.TEST".to_owned()));
    assert_eq!(rules.id_of("al@ice"), Err(PrincipalError::NoRule));
    with_jaas("fips-mode=false\n", JAAS).word("zookeeper.requireKerberosConfig=true").errors(&[
        "command line: requireKerberosConfig is true, but /etc/krb5.conf names no default_realm in [libdefaults]",
    ]);
    with_jaas("fips-mode=false\nsecurity.auth_to_local=RULE:[1:$1](?!x)\n", JAAS)
        .errors(&[
            "zoo.cfg:5: rule 1 of auth_to_local, \"RULE:[1:$1](?!x)\": \"^(?:?!x)$\" is no pattern, or uses look-around \
             or back references",
        ]);
}
