1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
1,3 | a b c
2 | b d
 | a
1 | a c
3,2 | d
