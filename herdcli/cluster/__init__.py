"""Workers in other processes and on other machines, through Dask, which is imported only where it is needed."""
