//! Certificate checks through whole handshakes in memory, in TLS 1.2 and TLS 1.3.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};
use serde_json::Value;
use zebu_security::secret::SecretText;
use zebu_security::store::{KeyStore, StoreInput, TrustStore, read_key_store, read_trust_store};
use zebu_security::verify::{
    CertificatePolicy, CertificateUsage, ClientCertDemand, JavaClientVerifier, JavaServerVerifier, NameCheck,
    OwnCertificate, PolicyError, RevocationMode, check_hosts,
};

type Authority = CertifiedIssuer<'static, KeyPair>;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

/// A fixed time, within the validity of the fixtures.
#[derive(Debug)]
struct FixedTime;

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(now())
    }
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_830_000_000))
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/certificates").join(name);
    fs::read_to_string(path).unwrap()
}

fn key_store(pem: &str) -> KeyStore {
    read_key_store(&StoreInput::new(pem.as_bytes(), &SecretText::default())).unwrap()
}

fn trust_store(pem: &str) -> TrustStore {
    read_trust_store(&StoreInput::new(pem.as_bytes(), &SecretText::default())).unwrap()
}

fn subject(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    params
}

fn authority(name: &str) -> Authority {
    let mut params = subject(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issued(params: &CertificateParams, authority: &Authority) -> String {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    key.serialize_pem() + &certificate.pem()
}

fn self_signed(params: &CertificateParams) -> String {
    let key = KeyPair::generate().unwrap();
    key.serialize_pem() + &params.self_signed(&key).unwrap().pem()
}

/// A client with the usual purpose.
fn client(name: &str) -> CertificateParams {
    let mut params = subject(name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

struct Listener {
    verifier: Arc<JavaClientVerifier>,
    own: KeyStore,
}

fn policy(trust: &str, usage: CertificateUsage) -> Arc<CertificatePolicy> {
    CertificatePolicy::new(&trust_store(trust), usage, RevocationMode::Off).unwrap()
}

fn listener(trust: &str, own: &str, demand: ClientCertDemand) -> Listener {
    let policy = policy(trust, CertificateUsage::Client);
    Listener { verifier: Arc::new(JavaClientVerifier::new(policy, demand)), own: key_store(own) }
}

/// Runs a handshake and returns the first error of either side.
fn handshake(
    listener: &Listener,
    client: Option<&KeyStore>,
    server_verifier: Arc<JavaServerVerifier>,
    name: &str,
    version: &'static SupportedProtocolVersion,
) -> Result<Option<Vec<CertificateDer<'static>>>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(FixedTime))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(Arc::clone(&listener.verifier) as Arc<dyn ClientCertVerifier>)
        .with_cert_resolver(OwnCertificate::new(&listener.own).unwrap());
    let mut server = ServerConnection::new(Arc::new(config)).unwrap();
    let config = ClientConfig::builder_with_details(provider, Arc::new(FixedTime))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(server_verifier);
    let config = match client {
        Some(store) => config.with_client_cert_resolver(OwnCertificate::new(store).unwrap()),
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    for _ in 0..10 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().map_err(|error| format!("server: {error}"))?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().map_err(|error| format!("client: {error}"))?;
        }
    }
    assert!(!server.is_handshaking() && !client.is_handshaking());
    Ok(server.peer_certificates().map(|chain| chain.iter().map(|der| der.clone().into_owned()).collect()))
}

/// The server's certificate is not in question here.
fn any_server(trust: &str) -> Arc<JavaServerVerifier> {
    Arc::new(JavaServerVerifier::new(policy(trust, CertificateUsage::Server), NameCheck::Off))
}

struct ClientCase {
    /// PEM of key and chain.
    client: Option<String>,
    /// PEM of further trusted certificates.
    also_trusted: String,
}

fn certificates_of(pem: &str) -> String {
    pem[pem.find("-----BEGIN CERTIFICATE").unwrap()..].to_owned()
}

/// Builds the client of a case that rcgen can make.
fn generated_case(case: &str, authority: &Authority) -> ClientCase {
    let mut params = client(case);
    let mut also_trusted = String::new();
    let own_authority = self::authority("another CA");
    let pem = match case {
        "client" => Some(issued(&params, authority)),
        "noext" => Some(issued(&subject(case), authority)),
        "anyeku" => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any];
            Some(issued(&params, authority))
        }
        "serveronly" => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            Some(issued(&params, authority))
        }
        "expired" => {
            params.not_after = date_time_ymd(2021, 1, 1);
            Some(issued(&params, authority))
        }
        "future" => {
            params.not_before = date_time_ymd(2080, 1, 1);
            Some(issued(&params, authority))
        }
        "unknown" => Some(issued(&params, &own_authority)),
        "caleaf" => {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
            Some(issued(&params, authority))
        }
        "pinned" | "pinnedca" | "pinnedexp" => {
            params.is_ca = match case {
                "pinnedca" => IsCa::Ca(BasicConstraints::Unconstrained),
                _ => IsCa::ExplicitNoCa,
            };
            if case == "pinnedexp" {
                params.not_after = date_time_ymd(2021, 1, 1);
            }
            let pem = self_signed(&params);
            also_trusted = certificates_of(&pem);
            Some(pem)
        }
        "viainter" | "viainter-nochain" => {
            let mut middle = subject("intermediate");
            middle.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            let key = KeyPair::generate().unwrap();
            let middle = CertifiedIssuer::signed_by(middle, key, authority).unwrap();
            let leaf = issued(&params, &middle);
            Some(if case == "viainter" { leaf + &middle.pem() } else { leaf })
        }
        "ed25519" => {
            let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
            let certificate = params.signed_by(&key, authority).unwrap();
            Some(key.serialize_pem() + &certificate.pem())
        }
        "kunosig" => {
            params.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
            Some(issued(&params, authority))
        }
        "critunk" => {
            let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
            extension.set_criticality(true);
            params.custom_extensions = vec![extension];
            Some(issued(&params, authority))
        }
        "emptydn" => {
            params.distinguished_name = DistinguishedName::new();
            params.subject_alt_names = vec![rcgen::SanType::DnsName("client".try_into().unwrap())];
            Some(issued(&params, authority))
        }
        "none" => None,
        other => panic!("no certificate for case {other}"),
    };
    ClientCase { client: pem, also_trusted }
}

/// The differences from Apache that the documentation lists.
fn is_accepted(case: &str, apache: &str) -> bool {
    match case {
        "pinnedexp" | "rsa1024" | "sha1" | "p521" => false,
        _ => apache == "accepted",
    }
}

#[test]
fn client_certificates_of_all_kinds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/client-certificates.json");
    let cases: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(cases.len(), 22);
    let authority = authority("test CA");
    let own = issued(&subject("localhost"), &authority);
    let fixtures = fixture("ca.crt") + &fixture("rsaca.crt");
    for row in &cases {
        let case = row["case"].as_str().unwrap();
        let expected = is_accepted(case, row["apache_3_9_5"].as_str().unwrap());
        let built = match case {
            "clientv1" => ClientCase {
                client: Some(fixture("v1.key") + &fixture("v1.crt")),
                also_trusted: fixtures.clone(),
            },
            "sha1" => ClientCase {
                client: Some(fixture("sha1.key") + &fixture("sha1.crt")),
                also_trusted: fixtures.clone(),
            },
            // ring cannot sign with these keys, so that no handshake with them is possible here.
            "rsa1024" | "p521" => {
                let trust = trust_store(&fixture(&format!("{case}.crt")));
                let verifier = JavaClientVerifier::new(
                    policy(&fixtures, CertificateUsage::Client),
                    ClientCertDemand::Need,
                );
                let verdict = verifier.verify_client_cert(&trust.entries[0].certificate, &[], now());
                assert_eq!(verdict.is_ok(), expected, "{case}");
                continue;
            }
            _ => generated_case(case, &authority),
        };
        let trust = authority.pem() + &built.also_trusted;
        let listener = listener(&trust, &own, ClientCertDemand::Need);
        let client = built.client.as_deref().map(key_store);
        for version in VERSIONS {
            let result =
                handshake(&listener, client.as_ref(), any_server(&authority.pem()), "localhost", version);
            assert_eq!(result.is_ok(), expected, "{case} {version:?}: {result:?}");
            if let Err(error) = result {
                assert!(error.starts_with("server:"), "{case}: {error}");
            }
        }
    }
}

#[test]
fn clients_without_certificate_are_kept_if_wanted() {
    let authority = authority("test CA");
    let own = issued(&subject("localhost"), &authority);
    let listener = listener(&authority.pem(), &own, ClientCertDemand::Want);
    for version in VERSIONS {
        let result = handshake(&listener, None, any_server(&authority.pem()), "localhost", version);
        assert_eq!(result.unwrap(), None);
    }
}

#[test]
fn version_1_is_accepted_as_own_certificate_and_below_intermediates() {
    let trust = fixture("ca.crt");
    let own = fixture("localhost.key") + &fixture("localhost.crt");
    let listener = listener(&trust, &own, ClientCertDemand::Need);
    let verifier = |names| Arc::new(JavaServerVerifier::new(policy(&trust, CertificateUsage::Server), names));
    let v1 = key_store(&(fixture("v1.key") + &fixture("v1.crt")));
    let below = key_store(&(fixture("below.key") + &fixture("below.crt") + &fixture("intermediate.crt")));
    let alone = key_store(&(fixture("below.key") + &fixture("below.crt")));
    // Its issuer is a v1 certificate, which must not issue others.
    let under_v1 = key_store(&(fixture("undera.key") + &fixture("undera.crt") + &fixture("oldca.crt")));
    for version in VERSIONS {
        let run = |client: &KeyStore, names, name: &str| {
            handshake(&listener, Some(client), verifier(names), name, version)
        };
        let chain = run(&v1, NameCheck::DialledName, "localhost").unwrap().unwrap();
        assert_eq!(zebu_security::x509_id::x509_id(&chain[0]).unwrap(), "CN=v1,O=Zebu Test");
        run(&below, NameCheck::DialledName, "localhost").unwrap();
        assert!(run(&alone, NameCheck::Off, "localhost").is_err());
        assert!(run(&under_v1, NameCheck::Off, "localhost").is_err());
        // The common name is "localhost", and no address fits a common name.
        assert!(run(&v1, NameCheck::DialledName, "other").unwrap_err().starts_with("client:"));
        assert!(run(&v1, NameCheck::DialledName, "127.0.0.1").is_err());
        let any_of = NameCheck::AnyOf(vec!["zk1".to_owned(), "localhost".to_owned()]);
        run(&v1, any_of, "other").unwrap();
    }
}

#[test]
fn a_trusted_leaf_does_not_issue_certificates() {
    let authority = authority("test CA");
    let mut params = client("pinned");
    params.is_ca = IsCa::ExplicitNoCa;
    let pinned = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let forged = key_store(&issued(&client("forged"), &pinned));
    let own = issued(&subject("localhost"), &authority);
    let trust = authority.pem() + &pinned.pem();
    let listener = listener(&trust, &own, ClientCertDemand::Need);
    for version in VERSIONS {
        let verifier = any_server(&authority.pem());
        assert!(handshake(&listener, Some(&forged), verifier, "localhost", version).is_err());
    }
}

#[test]
fn name_constraints_are_not_evaded_by_lenient_leaves() {
    let authority = authority("test CA");
    let mut middle = subject("constrained");
    middle.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    middle.name_constraints = Some(rcgen::NameConstraints {
        permitted_subtrees: vec![rcgen::GeneralSubtree::DnsName("example.com".to_owned())],
        excluded_subtrees: Vec::new(),
    });
    let middle = CertifiedIssuer::signed_by(middle, KeyPair::generate().unwrap(), &authority).unwrap();
    let mut leaf = client("caleaf");
    leaf.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let store = key_store(&(issued(&leaf, &middle) + &middle.pem()));
    let verifier =
        JavaClientVerifier::new(policy(&authority.pem(), CertificateUsage::Client), ClientCertDemand::Need);
    assert!(verifier.verify_client_cert(&store.chain[0], &store.chain[1..], now()).is_err());
}

/// An authority below another one.
fn middle(params: CertificateParams, above: &Authority) -> Authority {
    let mut params = params;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), above).unwrap()
}

/// The verdict about a client of these parameters below the middle authority.
fn is_accepted_below(leaf: &CertificateParams, middle: &Authority, root: &Authority) -> bool {
    let store = key_store(&(issued(leaf, middle) + &middle.pem()));
    let policy = policy(&root.pem(), CertificateUsage::Client);
    let verifier = JavaClientVerifier::new(policy, ClientCertDemand::Need);
    verifier.verify_client_cert(&store.chain[0], &store.chain[1..], now()).is_ok()
}

#[test]
fn issuers_need_the_right_to_issue_for_the_purpose() {
    let root = authority("test CA");
    let mut as_authority = client("caleaf");
    as_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    for leaf in [client("leaf"), as_authority] {
        let is_ca = leaf.is_ca;
        assert!(is_accepted_below(&leaf, &middle(subject("middle"), &root), &root));
        let mut unable = subject("middle");
        unable.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
        assert!(!is_accepted_below(&leaf, &middle(unable, &root), &root), "no keyCertSign: {is_ca:?}");
        let mut for_mails = subject("middle");
        for_mails.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
        assert!(!is_accepted_below(&leaf, &middle(for_mails, &root), &root), "other purpose: {is_ca:?}");
    }
}

#[test]
fn a_common_name_does_not_evade_name_constraints() {
    let root = authority("test CA");
    let mut constrained = subject("constrained");
    constrained.name_constraints = Some(rcgen::NameConstraints {
        permitted_subtrees: vec![rcgen::GeneralSubtree::DnsName("example.com".to_owned())],
        excluded_subtrees: Vec::new(),
    });
    let accepts = |middle: &Authority, dns: Option<&str>, common_name: &str, host: &str| {
        let mut leaf = subject(common_name);
        let names = dns.into_iter().map(|name| rcgen::SanType::DnsName(name.try_into().unwrap()));
        leaf.subject_alt_names = names.collect();
        let store = key_store(&(issued(&leaf, middle) + &middle.pem()));
        let policy = policy(&root.pem(), CertificateUsage::Peer);
        let verifier = JavaClientVerifier::for_hosts(policy, vec![host.to_owned()]);
        verifier.verify_client_cert(&store.chain[0], &store.chain[1..], now()).is_ok()
    };
    let constrained = middle(constrained, &root);
    assert!(accepts(&constrained, Some("zk1.example.com"), "x", "zk1.example.com"));
    assert!(!accepts(&constrained, Some("zk1.other.org"), "x", "zk1.other.org"));
    assert!(!accepts(&constrained, None, "zk1.other.org", "zk1.other.org"));
    assert!(accepts(&middle(subject("free"), &root), None, "zk1.other.org", "zk1.other.org"));
}

#[test]
fn revocation_lists_are_obeyed() {
    let trust = trust_store(&(fixture("ca.crt") + &fixture("ca.crl")));
    let policy = CertificatePolicy::new(&trust, CertificateUsage::Client, RevocationMode::Crls).unwrap();
    let verifier = JavaClientVerifier::new(policy, ClientCertDemand::Need);
    let check = |name: &str, more: &[CertificateDer<'_>]| {
        let store = trust_store(&fixture(&format!("{name}.crt")));
        verifier
            .verify_client_cert(&store.entries[0].certificate, more, now())
            .map_err(|error| error.to_string())
    };
    assert!(check("v1", &[]).is_ok());
    assert!(check("revoked", &[]).unwrap_err().contains("Revoked"));
    // The intermediate has no list of its own.
    let intermediate = trust_store(&fixture("intermediate.crt")).entries[0].certificate.clone();
    assert!(check("below", &[intermediate]).unwrap_err().contains("UnknownRevocationStatus"));

    let without = trust_store(&fixture("ca.crt"));
    let missing = CertificatePolicy::new(&without, CertificateUsage::Client, RevocationMode::Crls);
    assert_eq!(missing.unwrap_err(), PolicyError::NoCrls);
}

#[test]
fn revocation_lists_of_generated_authorities() {
    let mut params = subject("test CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority: Authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let with_serial = |serial: u64, is_ca: IsCa| {
        let mut params = client("x");
        params.serial_number = Some(rcgen::SerialNumber::from(serial));
        params.is_ca = is_ca;
        key_store(&issued(&params, &authority)).chain[0].clone()
    };
    // A list of this year and until that one, which revokes a certificate.
    let list = |year, until, serial: u64| {
        let params = rcgen::CertificateRevocationListParams {
            this_update: date_time_ymd(year, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: rcgen::SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: vec![rcgen::RevokedCertParams {
                serial_number: rcgen::SerialNumber::from(serial),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&authority).unwrap().pem().unwrap()
    };
    let verdict_with = |lists: &str, certificate: &CertificateDer<'_>| {
        let trust = trust_store(&(authority.pem() + lists));
        let policy = CertificatePolicy::new(&trust, CertificateUsage::Client, RevocationMode::Crls).unwrap();
        let verifier = JavaClientVerifier::new(policy, ClientCertDemand::Need);
        verifier.verify_client_cert(certificate, &[], now()).is_ok()
    };
    let verdict = |until, certificate: &CertificateDer<'_>| verdict_with(&list(2020, until, 7), certificate);
    for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        assert!(verdict(2080, &with_serial(8, is_ca)));
        assert!(!verdict(2080, &with_serial(7, is_ca)));
        assert!(!verdict(2021, &with_serial(8, is_ca)), "the list is too old");
        // Of two lists the newer one decides, wherever it stands in the file.
        let (older, newer) = (list(2021, 2080, 8), list(2022, 2080, 7));
        for lists in [format!("{older}{newer}"), format!("{newer}{older}")] {
            assert!(verdict_with(&lists, &with_serial(8, is_ca)));
            assert!(!verdict_with(&lists, &with_serial(7, is_ca)));
        }
    }
}

#[test]
fn peers_need_a_host_of_the_ensemble() {
    let authority = authority("test CA");
    let mut params = subject("zk1");
    params.subject_alt_names = vec![
        rcgen::SanType::DnsName("zk1.example.com".try_into().unwrap()),
        rcgen::SanType::IpAddress("10.0.0.1".parse().unwrap()),
        rcgen::SanType::IpAddress("fd00::1".parse().unwrap()),
    ];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let peer = key_store(&issued(&params, &authority));
    let fits = |hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        check_hosts(&peer.chain[0], &hosts)
    };
    assert_eq!(fits(&["zk2.example.com", "ZK1.example.com."]), Ok(1));
    assert_eq!(fits(&["10.0.0.1"]), Ok(0));
    assert_eq!(fits(&["[fd00:0::1]"]), Ok(0));
    let error = fits(&["zk1", "10.0.0.2"]).unwrap_err().to_string();
    assert!(
        error.contains("zk1.example.com, 10.0.0.1, fd00::1") && error.contains("zk1 or 10.0.0.2"),
        "{error}"
    );
    assert!(check_hosts(b"x", &[]).is_err());

    let own = key_store(&issued(&subject("localhost"), &authority));
    for (hosts, expected) in [(vec!["zk1.example.com".to_owned()], true), (vec!["zk2".to_owned()], false)] {
        let policy = policy(&authority.pem(), CertificateUsage::Peer);
        let verifier = Arc::new(JavaClientVerifier::for_hosts(policy, hosts));
        let listener = Listener { verifier, own: own.clone() };
        for version in VERSIONS {
            let verifier = any_server(&authority.pem());
            let result = handshake(&listener, Some(&peer), verifier, "localhost", version);
            assert_eq!(result.is_ok(), expected, "{result:?}");
        }
    }
}

#[test]
fn chains_are_bounded() {
    let authority = authority("test CA");
    let verifier =
        JavaClientVerifier::new(policy(&authority.pem(), CertificateUsage::Client), ClientCertDemand::Need);
    let store = key_store(&issued(&client("x"), &authority));
    let many = vec![store.chain[0].clone(); 50];
    assert!(verifier.verify_client_cert(&store.chain[0], &many, now()).is_err());

    // Intermediates that name each other as issuer.
    let (key_a, key_b) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let ca = |name: &str| {
        let mut params = subject(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let issuer_b = rcgen::Issuer::new(ca("b"), KeyPair::from_pem(&key_b.serialize_pem()).unwrap());
    let a = CertifiedIssuer::signed_by(ca("a"), key_a, &issuer_b).unwrap();
    let b = ca("b").signed_by(&key_b, &a).unwrap();
    let mut leaf = client("leaf");
    leaf.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let leaf = key_store(&issued(&leaf, &a)).chain[0].clone();
    let intermediates = [a.der().clone(), b.der().clone()];
    assert!(verifier.verify_client_cert(&leaf, &intermediates, now()).is_err());
}

#[test]
fn hints_name_every_trusted_subject() {
    let (first, second) = (authority("first"), authority("second"));
    let policy = policy(&(first.pem() + &second.pem()), CertificateUsage::Client);
    let verifier = JavaClientVerifier::new(policy, ClientCertDemand::Need);
    assert_eq!(verifier.root_hint_subjects().len(), 2);
}

/// The list in a handshake has a length field of two bytes.
#[test]
fn trust_stores_beyond_the_length_of_the_hints_work() {
    let authority = authority("test CA");
    let own = issued(&subject("localhost"), &authority);
    let long = |index: usize| self::authority(&format!("{index}{}", "x".repeat(2_000))).pem();
    let trust: String = authority.pem() + &(0..35).map(long).collect::<String>();
    let listener = listener(&trust, &own, ClientCertDemand::Need);
    let client = key_store(&issued(&client("x"), &authority));
    for version in VERSIONS {
        handshake(&listener, Some(&client), any_server(&authority.pem()), "localhost", version).unwrap();
    }
}
