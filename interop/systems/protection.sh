# TLS and SASL between a system and the server. Sourced after server.sh; protect NAME is called before start_server.
# Stores come from OpenSSL and keytool, in $scratch/stores; the password of each is in store_password.

store_password=secret
# The ids that the server sees.
x509_id="x509:CN=system,O=Zebu Test"
sasl_id="sasl:system"

# protect tls|sasl|none: settings of every server that starts from now on.
protect() {
    case $1 in
        none) ;;
        tls)
            make_stores || could_not_run "no stores: $(tail -1 "$scratch/stores/log")"
            server_secure=yes
            server_lines="ssl.keyStore.location=$scratch/stores/server.p12
ssl.keyStore.password=$store_password
ssl.trustStore.location=$scratch/stores/trust.jks
ssl.trustStore.password=$store_password
ssl.enabledProtocols=TLSv1.2,TLSv1.3"
            ;;
        sasl)
            make_logins
            server_lines=authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
            server_properties=("-Djava.security.auth.login.config=$scratch/server.jaas" -Dzookeeper.fips-mode=false)
            ;;
        *) could_not_run "no protection $1; known are none, tls and sasl" ;;
    esac
}

# make_stores: an authority, and one key each for servers and for the system.
make_stores() {
    local stores=$scratch/stores name
    mkdir -p "$stores"
    (
        cd "$stores" || exit 1
        openssl req -x509 -newkey rsa:2048 -nodes -days 30 -keyout ca.key -out ca.crt -subj "/O=Zebu Test/CN=Test CA" \
            -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign || exit 1
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' >server.ext
        printf 'extendedKeyUsage=clientAuth\n' >system.ext
        for name in server system; do
            openssl req -new -newkey rsa:2048 -nodes -keyout $name.key -out $name.csr -subj "/O=Zebu Test/CN=$name" &&
                openssl x509 -req -in $name.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out $name.crt -extfile $name.ext &&
                openssl pkcs12 -export -name $name -inkey $name.key -in $name.crt -out $name.p12 -passout "pass:$store_password" &&
                keytool -importkeystore -noprompt -srckeystore $name.p12 -srcstoretype PKCS12 -srcstorepass "$store_password" \
                    -destkeystore $name.jks -deststoretype JKS -deststorepass "$store_password" || exit 1
        done
        keytool -importcert -noprompt -alias ca -file ca.crt -keystore trust.jks -storetype JKS -storepass "$store_password"
    ) >"$stores/log" 2>&1
}

# make_logins: the user "system" for the server and for the system.
make_logins() {
    local module="org.apache.zookeeper.server.auth.DigestLoginModule required"
    printf 'Server { %s user_system="of the system"; };\n' "$module" >"$scratch/server.jaas"
    printf 'Client { %s username="system" password="of the system"; };\n' "$module" >"$scratch/client.jaas"
}
