#!/bin/sh
# redis.sh PORT RESOURCE TOKEN: writes each line of its input to a key, and says whether it was let.
# The script is what `leasehold fence guard redis` prints.
port=$1 resource=$2 token=$3 script=$(leasehold fence guard redis)
while read -r line; do
  said=$(redis-cli -p "$port" EVAL "$script" 2 "fence:$resource" "$resource" "$token" SET "$resource" "$line")
  case $said in OK) echo "written $line" ;; *) echo "refused $line: $said" ;; esac
done
