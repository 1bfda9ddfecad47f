#!/bin/sh
# BLAST databases of version 5: accessions and taxa are looked up in files of LMDB's.
set -eu
awk 'BEGIN {
    srand(7)
    for (i = 0; i < 5000; i++) {
        printf ">gb|ABA%05d.%d| protein number %d\n", i, i % 3 + 1, i > "sequences.fa"
        for (j = 0; j < 40; j++)
            printf "%s", substr("ACDEFGHIKLMNPQRSTVWY",
                1 + (i * 7 + j * j * (i % 11 + 1)) % 20, 1) > "sequences.fa"
        print "" > "sequences.fa"
        printf "ABA%05d.%d %d\n", i, i % 3 + 1, 9606 + i % 5 > "taxa"
        if (i % 10 == 0) printf "ABA%05d.%d\n", i, i % 3 + 1 > "list"
    }
}'
makeblastdb -in sequences.fa -dbtype prot -blastdb_version 5 -parse_seqids -taxid_map taxa -out db |
    grep -v -e seconds -e time -e name
rm -f db.pdb-lock
ls db.*
blastdbcmd -db db -entry ABA00123.1
blastdbcmd -db db -entry ABA04999
blastdbcmd -db db -entry NOT00001 || echo "it is not there"
blastdbcmd -db db -taxids 9607 -outfmt '%a %T' | sort | cksum
blastdbcmd -db db -entry_batch list -outfmt '%a %T %l' | cksum
blastdbcmd -db db -entry all -outfmt '%a %o %t' | cksum
blastdbcmd -db db -tax_info
head -n 2 sequences.fa > query.fa
for taxon in 9606 9608; do
    blastp -query query.fa -db db -outfmt 6 -taxids "$taxon" -evalue 1000 &
done | sort | cksum
head -n 20 list > some
blastp -query query.fa -db db -outfmt 6 -seqidlist some 2> messages | sort | cksum
# The table is made again over the old one.
head -n 2000 sequences.fa > fewer.fa
makeblastdb -in fewer.fa -dbtype prot -parse_seqids -out db | grep -v -e seconds -e time -e name
blastdbcmd -db db -entry ABA00999
blastdbcmd -db db -entry ABA04999 || echo "it is gone"
