//! JAAS files as the JDK's parser reads them.

use serde_json::Value;
use zebu_security::jaas::{JAAS_BYTES_MAX, JaasError, JaasFile, JaasFlag, JaasLogin, JaasSection};

use crate::recorded;

fn parse(text: &str) -> Result<JaasFile, JaasError> {
    let property = |name: &str| match name {
        "user.home" => Some("HOME".to_owned()),
        "empty" => Some(String::new()),
        _ => None,
    };
    JaasFile::parse(text.as_bytes(), &property)
}

/// The notation of the vectors: `class{key=value}` for each module.
fn written(section: &JaasSection) -> String {
    let module = |module: &zebu_security::jaas::JaasModule| {
        let options: Vec<String> =
            module.options().map(|(key, value)| format!("{key}={}", value.reveal())).collect();
        format!("{}{{{}}}", module.class, options.join(","))
    };
    section.modules.iter().map(module).collect()
}

#[test]
fn recorded_cases() {
    let cases: Vec<Value> = serde_json::from_str(&recorded::text("jaas-cases.json")).unwrap();
    assert_eq!(cases.len(), 39);
    for case in cases {
        let name = case["case"].as_str().unwrap();
        let result = parse(case["text"].as_str().unwrap());
        match case["section_S"].as_str() {
            Some("error") => {
                let error = result.unwrap_err();
                let recorded = case["error"].as_str().unwrap();
                if let Some(line) = recorded.split("Line ").nth(1) {
                    let line = line.split(':').next().unwrap();
                    assert_eq!(error.line.to_string(), line, "{name}: {error}");
                }
                assert!(error.line >= 1, "{name}");
            }
            Some(expected) => assert_eq!(written(result.unwrap().section("S").unwrap()), expected, "{name}"),
            None => assert!(result.unwrap().section("S").is_none(), "{name}"),
        }
    }
}

#[test]
fn errors_name_the_line_and_no_value() {
    for (text, line, part) in [
        ("S {\n m.X required\n a=\"secret\"\n b=\"secret\" };", 4, "an option or ;"),
        ("S {\n m.X required a=\"b\";\n};\nT {", 4, "the file ends"),
        ("\n\nS {\n m.X needed;\n};", 4, "control flag"),
        ("/* a\n b */ S { m.X required a=12; };", 2, "in quotes"),
        ("S {\n m.X required\n a=\"${gone}secret\"; };", 3, "option a: property gone is not set"),
        ("S { m.X required a=\"${empty}\"; };", 1, "property is empty"),
        ("S { m.X required; };\nS { m.X required; };", 2, "section S stands twice"),
        ("S {\n \"\" required; };", 2, "is empty"),
        ("/* never closed", 1, ""),
    ] {
        match parse(text) {
            Err(error) => {
                assert_eq!(error.line, line, "{text}: {error}");
                assert!(error.problem.contains(part), "{text}: {error}");
                assert!(!error.to_string().contains("secret"), "{error}");
            }
            Ok(file) => assert!(part.is_empty() && file.section_names().next().is_none(), "{text}"),
        }
    }
    assert!(JaasFile::parse(&vec![b' '; JAAS_BYTES_MAX + 1], &|_| None).is_err());
    assert!(JaasFile::parse(&vec![b'{'; JAAS_BYTES_MAX], &|_| None).is_err());
}

#[test]
fn properties_are_expanded_once() {
    let value = |text: &str| {
        let file = parse(&format!("S {{ m.X required a=\"{text}\"; }};")).unwrap();
        file.section("S").unwrap().modules[0].option("a").unwrap().reveal().to_owned()
    };
    assert_eq!(value("x${user.home}y${user.home}"), "xHOMEyHOME");
    assert_eq!(value("${{user.home}}z"), "${{user.home}}z");
    assert_eq!(value("a${/}b${"), "a/b${");
    assert_eq!(value("${empty}a"), "a");
}

#[test]
fn logins_of_sections() {
    let file = parse(
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule Required \
           user_super=\"adminsecret\" user_bob=\"bobsecret\" \"user_a@b\"=\"\"; };\n\
         Client { org.apache.zookeeper.server.auth.DigestLoginModule required username=\"bob\" password=\"pw\"; };\n\
         QuorumServer { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true \
           keyTab=\"/k\" isInitiator=false principal=\"zkquorum/h@R\"; };\n\
         IBM { com.ibm.security.auth.module.Krb5LoginModule required useKeytab=\"/i\" principal=\"a@R\"; };\n\
         Other { com.example.Login required; };",
    )
    .unwrap();
    let login = |name: &str| file.section(name).unwrap().login();
    let Ok(JaasLogin::Digest(server)) = login("Server") else { panic!() };
    assert_eq!(server.users.names().collect::<Vec<_>>(), ["a@b", "bob", "super"]);
    assert_eq!(server.username, None);
    let Ok(JaasLogin::Digest(client)) = login("Client") else { panic!() };
    assert_eq!((client.username.as_deref(), client.password.reveal()), (Some("bob"), "pw"));
    let Ok(JaasLogin::Kerberos(quorum)) = login("QuorumServer") else { panic!() };
    assert_eq!((quorum.key_tab.as_deref(), quorum.is_initiator), (Some("/k"), false));
    assert_eq!(quorum.service_principal(None).unwrap().host.as_deref(), Some("h"));
    let Ok(JaasLogin::Kerberos(ibm)) = login("IBM") else { panic!() };
    assert_eq!((ibm.key_tab.as_deref(), ibm.is_initiator), (Some("/i"), true));
    assert!(quorum.check_keys().is_ok() && ibm.check_keys().is_ok());
    let error = ibm.service_principal(None).unwrap_err();
    assert_eq!(error.line, 4);
    assert!(error.problem.contains("service/host@REALM"));
    let error = login("Other").unwrap_err();
    assert_eq!(error.line, 5);
    assert!(error.problem.contains("com.example.Login"), "{error}");
    assert_eq!(file.section("Server").unwrap().modules[0].flag, JaasFlag::Required);
    assert!(!format!("{file:?}").contains("bobsecret"));
}
