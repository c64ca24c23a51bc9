"""The data sets of the papers: what each is, where it is published, and how its published files become arrays.

    registry   the table of sets; imports nothing heavy
    sets/      a file for each set: its description, and `convert`, from published files to arrays
    cache      the folder of finished sets; finds, downloads, converts and checks
    download   resumed and retried downloads from several addresses, by pooch (extra `data`)

Nothing of this ships with herd but the descriptions.
"""
