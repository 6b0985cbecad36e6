#!/bin/sh
# etcd.sh ENDPOINT RESOURCE TOKEN: writes each line of its input to a key, and says whether it was let.
export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=$1
resource=$2 token=$3
# Tokens compare as text, so all have sixteen digits. The first time there is nothing to compare with.
printf 'create("fence/%s") = "0"\n\nput fence/%s 0000000000000000\n\n\n' "$resource" "$resource" | etcdctl txn > /dev/null
below=$(printf %016d $((token + 1))) value=$(printf %016d "$token")
while read -r line; do
  said=$(printf 'value("fence/%s") < "%s"\n\nput fence/%s %s\nput %s "%s"\n\n\n' "$resource" "$below" "$resource" "$value" "$resource" "$line" | etcdctl txn)
  case $said in SUCCESS*) echo "written $line" ;; *) echo "refused $line: a newer term has been here" ;; esac
done
