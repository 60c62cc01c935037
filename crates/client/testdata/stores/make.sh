#!/bin/sh
# Writes the stores of a v1 client certificate and its CA from ca.crt, v1.crt and v1.key. The password is secret.
set -e
certificates=../../../security/testdata/certificates
openssl pkcs12 -export -name client -inkey $certificates/v1.key -in $certificates/v1.crt -certfile $certificates/ca.crt -out client.p12 -passout pass:secret
openssl pkcs12 -export -legacy -name client -inkey $certificates/v1.key -in $certificates/v1.crt -certfile $certificates/ca.crt -out client-legacy.p12 -passout pass:secret
keytool -importkeystore -noprompt -srckeystore client.p12 -srcstoretype PKCS12 -srcstorepass secret \
  -destkeystore client.jks -deststoretype JKS -deststorepass secret
keytool -importcert -noprompt -alias ca -file $certificates/ca.crt -keystore trust.jks -storetype JKS -storepass secret
keytool -importcert -noprompt -alias ca -file $certificates/ca.crt -keystore trust.p12 -storetype PKCS12 -storepass secret
openssl pkcs8 -topk8 -in $certificates/v1.key -v1 PBE-SHA1-3DES -passout pass:secret -out encrypted-3des.key
openssl pkcs8 -topk8 -in $certificates/v1.key -v2 aes-256-cbc -passout pass:secret -out encrypted-aes.key
