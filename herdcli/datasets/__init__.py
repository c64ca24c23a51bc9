"""The data sets of the papers: a description of each, its download addresses, and the conversion of published files to arrays.

    registry   the table of sets; imports nothing heavy
    sets/      a file for each set: its description, and `convert`, from published files to arrays
    cache      the folder of finished sets; finds, downloads, converts and checks
    download   resumed and retried downloads from several addresses, by pooch (extra `data`)

Only the descriptions are distributed with herd, not the data.
"""
